"""`warpwatch runner locked COMMAND` and `reset-clocks`: locked clocks by hand, as the services have them."""

import subprocess
import sys
from pathlib import Path

import click

from warpwatch.ci.runner.ceilings import clock_under_load_mhz, free_clock_file
from warpwatch.ci.runner.clock_lock import ClockError, choose, forgotten_locks, locked_clocks, reset_clocks
from warpwatch.ci.runner.host import Host


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--sm-clock", type=click.IntRange(1), metavar="MHZ",
              help="Default: what the card kept under load, by `runner setup`'s calibration.")  # fmt: skip
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def locked(sm_clock: int | None, command: tuple[str, ...]) -> None:
    """Run COMMAND with locked GPU clocks, and give the clocks back however it ends. Exit status: the command's."""
    host = Host(folder=Path.cwd())
    for lock in forgotten_locks(host):
        _say(f"process {lock.pid} left {lock.uuid} locked to {lock.sm_mhz} MHz; it gets its clocks back afterwards")
        lock.path.unlink(missing_ok=True)
    choices = []
    for card in host.gpus.cards:
        kept = clock_under_load_mhz(free_clock_file(host, card.uuid))
        choice = choose(host, card, wanted_mhz=sm_clock, under_load_mhz=kept)
        if choice is not None:
            choices.append(choice)
    if not choices:
        _say("no GPU that tells its clocks: nothing is locked")
    try:
        if not choices:
            sys.exit(_run(command))
        with locked_clocks(host, choices, _say):
            status = _run(command)
    except ClockError as error:
        raise click.ClickException(str(error)) from error
    sys.exit(status)


@click.command("reset-clocks")
def reset() -> None:
    """Give every GPU its clocks back, whoever locked them."""
    try:
        reset_clocks(Host(folder=Path.cwd()), click.echo)
    except ClockError as error:
        raise click.ClickException(str(error)) from error


def _run(command: tuple[str, ...]) -> int:
    try:
        status = subprocess.run(command).returncode
    except OSError as error:
        raise click.ClickException(f"{command[0]}: {error.strerror}") from error
    return status if status >= 0 else 128 - status


def _say(line: str) -> None:
    click.echo(line, err=True)

"""`warpwatch runner locked COMMAND` and `reset-clocks`: locked clocks by hand, as the services have them."""

import subprocess
import sys
from pathlib import Path

import click

from warpwatch.ci.runner.clock_lock import ClockError, chosen_clocks, forgotten_locks, locked_clocks, reset_clocks
from warpwatch.ci.runner.host import Host


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--sm-clock", type=click.IntRange(1), metavar="MHZ",
              help="Default: what the card kept under load, by `runner setup`'s calibration.")  # fmt: skip
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def locked(sm_clock: int | None, command: tuple[str, ...]) -> None:
    """Run a command with locked GPU clocks.

    The clocks are reset however it ends. Exit status: the command's.
    """
    try:
        sys.exit(run_locked(Host(folder=Path.cwd()), sm_clock, command))
    except ClockError as error:
        raise click.ClickException(str(error)) from error


def run_locked(host: Host, sm_clock: int | None, command: tuple[str, ...]) -> int:
    """The command's status. Raises ClockError."""
    for lock in forgotten_locks(host):
        _say(f"process {lock.pid} left {lock.uuid} locked to {lock.sm_mhz} MHz")
    choices = chosen_clocks(host, sm_clock)
    if not choices:
        _say("no GPU that tells its clocks: nothing is locked")
        return _run(command)
    with locked_clocks(host, choices, _say):
        return _run(command)


@click.command("reset-clocks")
def reset() -> None:
    """Reset the clocks of every GPU, whoever locked them."""
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

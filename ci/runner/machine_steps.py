"""Set-up steps of the machine: modes, name, calibration, clocks, A/A test."""

import shlex
import subprocess
from contextlib import nullcontext
from pathlib import Path

import click

from .clock_lock import ClockChoice, ClockError, lock_commands, locked_clocks, reset_commands
from .host import Host
from .installation import ceiling_file, cpu_key, free_clock_file
from .setup_steps import SetupError, Step, command_step


def first_steps(host: Host) -> list[Step]:
    """Steps before the clocks are chosen."""
    steps = [
        command_step(
            host,
            f"persistence mode of {card.name}",
            ["nvidia-smi", "-i", card.uuid, "-pm", "1"],
            wants_root=True,
            is_done=bool(card.flag("persistence_mode")),
        )
        for card in host.gpus.cards
    ]
    named = (host.home / ".asv-machine.json").is_file()
    name_it = [*host.as_user, host.python, "-m", "asv", "machine", "--yes"]
    steps.append(
        command_step(host, "a name for this machine in asv's results", name_it, is_done=named, cwd=host.folder)
    )
    if host.gpus.cards:
        files = [free_clock_file(host, card.uuid) for card in host.gpus.cards]
        done = all(file.is_file() for file in files)
        steps.append(
            _calibrate(host, "calibration at free clocks: what the card keeps under load", done, files[0].parent)
        )
    else:
        done = ceiling_file(host, cpu_key(host.read("/proc/cpuinfo") or "")).is_file()
        steps.append(_calibrate(host, "calibration of the processor (no GPU here)", done, None))
    return steps


def calibration_steps(host: Host, choices: list[ClockChoice]) -> list[Step]:
    """The ceilings that runs are held against are those of the locked clocks."""
    if not choices:
        return []
    done = all(ceiling_file(host, each.card.uuid).is_file() for each in choices)
    calibrate = _calibrate(host, "", done, None)

    def do() -> None:
        try:
            with locked_clocks(host, choices, click.echo):
                calibrate.do()
        except ClockError as error:
            raise SetupError(str(error)) from error

    locks = [command for each in choices for command in lock_commands(each)]
    resets = [command for each in choices for command in reset_commands(each.card.uuid)]
    shows = tuple(" ".join(each) for each in locks) + calibrate.shows + tuple(" ".join(each) for each in resets)
    return [Step(title="calibration at locked clocks", shows=shows, do=do, wants_root=True, is_done=done)]


def _calibrate(host: Host, title: str, done: bool, output: Path | None) -> Step:
    python = host.python
    alone = [*host.as_user, python, "-m", "warpwatch.ci.cli", "runner", "alone"]
    words = [*alone, python, "-m", "perf_suite", "calibrate"]
    return command_step(
        host, title, [*words, *(["--output", str(output)] if output else [])], is_done=done, cwd=host.folder, talks=True
    )


def measure_trust(host: Host, choices: list[ClockChoice], patterns: tuple[str, ...], runs: int, dry_run: bool) -> None:
    """The A/A with its report. It is the measuring user's; the lock around it is this one's. Raises SetupError."""
    python = host.python
    words = [*host.as_user, python, "-m", "warpwatch.ci.cli", "runner", "trust", "--runs", str(runs)]
    words += [word for pattern in patterns for word in ("--bench", pattern)]
    if dry_run:
        click.echo(f"  would do       A/A and trust report\n                 (cd {host.folder} && {shlex.join(words)})")
        return
    click.echo(f"  doing          A/A: the newest commit, {runs} times")
    may_lock = choices and host.privilege is not None
    try:
        with locked_clocks(host, choices, click.echo) if may_lock else nullcontext():
            done = subprocess.run(words, cwd=host.folder, env=dict(host.environ))
    except ClockError as error:
        raise SetupError(str(error)) from error
    if done.returncode:
        raise SetupError(f"the A/A ended with {done.returncode}; its words stand above")

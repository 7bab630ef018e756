"""Set-up steps of the machine: modes, name, calibration, clocks, A/A test."""

import shlex
import subprocess
from contextlib import nullcontext
from pathlib import Path

import click

from .clock_lock import ClockChoice, ClockError, lock_commands, locked_clocks, reset_commands
from .host import Host
from .installation import ceiling_file, cpu_key, free_clock_file
from .setup_steps import SetupError, SetupStep, command_step


def first_steps(host: Host) -> list[SetupStep]:
    """Steps before the clocks are chosen."""
    steps = [
        command_step(
            host,
            f"persistence mode of {gpu.name}",
            ["nvidia-smi", "-i", gpu.uuid, "-pm", "1"],
            needs_root=True,
            is_done=bool(gpu.flag("persistence_mode")),
        )
        for gpu in host.gpus.devices
    ]
    named = (host.home / ".asv-machine.json").is_file()
    name_it = [*host.as_user, host.python, "-m", "asv", "machine", "--yes"]
    steps.append(
        command_step(host, "a name for this machine in asv's results", name_it, is_done=named, cwd=host.folder)
    )
    if host.gpus.devices:
        files = [free_clock_file(host, gpu.uuid) for gpu in host.gpus.devices]
        done = all(file.is_file() for file in files)
        steps.append(_calibrate(host, "calibration at free clocks: the clock under load", done, files[0].parent))
    else:
        done = ceiling_file(host, cpu_key(host.read("/proc/cpuinfo") or "")).is_file()
        steps.append(_calibrate(host, "calibration of the processor (no GPU here)", done, None))
    return steps


def calibration_steps(host: Host, choices: list[ClockChoice]) -> list[SetupStep]:
    """Measure the ceilings at locked clocks, at which runs are measured."""
    if not choices:
        return []
    done = all(ceiling_file(host, each.gpu.uuid).is_file() for each in choices)
    calibrate = _calibrate(host, "", done, None)

    def do() -> None:
        try:
            with locked_clocks(host, choices, click.echo):
                calibrate.do()
        except ClockError as error:
            raise SetupError(str(error)) from error

    locks = tuple(" ".join(command) for choice in choices for command in lock_commands(choice))
    resets = tuple(" ".join(command) for choice in choices for command in reset_commands(choice.gpu.uuid))
    shows = (*locks, *calibrate.shows, *resets)
    return [SetupStep(title="calibration at locked clocks", shows=shows, do=do, needs_root=True, is_done=done)]


def _calibrate(host: Host, title: str, done: bool, output: Path | None) -> SetupStep:
    python = host.python
    with_lock = [*host.as_user, python, "-m", "warpwatch.ci.cli", "runner", "with-gpu-lock"]
    words = [*with_lock, python, "-m", "warpbench", "calibrate"]
    return command_step(
        host,
        title,
        [*words, *(["--output", str(output)] if output else [])],
        is_done=done,
        cwd=host.folder,
        show_stderr=True,
    )


def run_aa_test(host: Host, choices: list[ClockChoice], patterns: tuple[str, ...], runs: int, dry_run: bool) -> None:
    """Run the A/A test and its report as the measuring user, with clocks locked by this one. Raises SetupError."""
    python = host.python
    words = [*host.as_user, python, "-m", "warpwatch.ci.cli", "runner", "trust", "--runs", str(runs)]
    words += [word for pattern in patterns for word in ("--bench", pattern)]
    if dry_run:
        click.echo("  would do       A/A test and trust report")
        click.echo(f"                 (cd {host.folder} && {shlex.join(words)})")
        return
    click.echo(f"  doing          A/A test: {runs} runs of the newest commit")
    may_lock = choices and host.privilege is not None
    try:
        with locked_clocks(host, choices, click.echo) if may_lock else nullcontext():
            done = subprocess.run(words, cwd=host.folder, env=dict(host.environ))
    except ClockError as error:
        raise SetupError(str(error)) from error
    if done.returncode:
        raise SetupError(f"the A/A test ended with {done.returncode}; see its output above")

"""Steps of a set-up: each shows its action, whether it is done, and whether it needs root."""

import os
import shlex
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import click

from .calibration_files import ceiling_file, cpu_key, free_clock_file
from .clock_lock import ClockChoice, ClockError, lock_commands, locked_clocks, reset_commands
from .host import Host

_LONGEST_S = 3600  # a calibration on a busy processor takes minutes


class SetupError(Exception):
    """A step failed; the message says which and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetupStep:
    """A step of a set-up."""

    title: str
    shows: tuple[str, ...]  # its commands and files
    do: Callable[[], None]
    needs_root: bool = False
    is_done: bool = False


def command_step(
    host: Host,
    title: str,
    command: Sequence[str],
    *,
    needs_root: bool = False,
    is_done: bool = False,
    cwd: Path | None = None,
    show_stderr: bool = False,
) -> SetupStep:
    shown = shlex.join(command) if cwd is None else f"(cd {shlex.quote(str(cwd))} && {shlex.join(command)})"

    def do() -> None:
        done = host.run(*command, cwd=cwd, timeout_s=_LONGEST_S, show_stderr=show_stderr)
        if done.status:
            raise SetupError(f"{shown} ended with {done.status}: {(done.err or done.out).strip()[-500:]}")

    return SetupStep(title=title, shows=(shown,), do=do, needs_root=needs_root, is_done=is_done)


def file_step(host: Host, title: str, path: str, text: str, *, mode: int = 0o644) -> SetupStep:
    """A step that writes a file below the host's root; done if it exists with this text and mode."""
    target = host.root / path

    def do() -> None:
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            write_file(target, text, mode=mode)
        except OSError as error:
            raise SetupError(f"cannot write {target}: {error.strerror}") from error

    shown = text if mode & 0o077 else "(a secret)"
    is_done = host.read(path) == text.strip() and target.stat().st_mode & 0o777 == mode
    indented = "".join(f"    {line}\n" for line in shown.splitlines())
    return SetupStep(
        title=title,
        shows=(f"write {target} (mode {mode:o}):\n{indented.rstrip()}",),
        do=do,
        needs_root=host.root == Path("/"),
        is_done=is_done,
    )


def write_file(target: Path, text: str, *, mode: int) -> None:
    """Replaces the file atomically: writing into the old one would give the text to its mode and its open readers.

    Raises OSError and leaves the old file.
    """
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")  # of mode 0600
    new = Path(name)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
            os.fchmod(file.fileno(), mode)
        new.replace(target)
    except BaseException:
        new.unlink(missing_ok=True)
        raise


def perform(steps: Sequence[SetupStep], host: Host, *, dry_run: bool, say: Callable[[str], None]) -> list[SetupStep]:
    """Performs the open steps, and returns those that need root. Raises SetupError."""
    left = []
    for step in steps:
        if step.is_done:
            say(f"  done already   {step.title}")
        elif step.needs_root and not host.is_root:
            say(f"  needs root     {step.title}")
            left.append(step)
        elif dry_run:
            say(f"  would do       {step.title}")
            for line in step.shows:
                say("\n".join(f"                 {part}" for part in line.splitlines()))
        else:
            say(f"  doing          {step.title}")
            step.do()
    return left


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

"""Steps of a set-up: each shows its action, whether it is done, and whether it needs root."""

import os
import shlex
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

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
    """A step that runs a command."""
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

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
class Step:
    """A step of set-up."""

    title: str
    shows: tuple[str, ...]  # commands and files, as they are run and written
    do: Callable[[], None]
    wants_root: bool = False
    is_done: bool = False


def command_step(
    host: Host,
    title: str,
    command: Sequence[str],
    *,
    wants_root: bool = False,
    is_done: bool = False,
    cwd: Path | None = None,
    talks: bool = False,
) -> Step:
    """A step that runs a command. One that `talks` writes to the terminal meanwhile."""
    shown = shlex.join(command) if cwd is None else f"(cd {shlex.quote(str(cwd))} && {shlex.join(command)})"

    def do() -> None:
        said = host.run(*command, cwd=cwd, timeout_s=_LONGEST_S, talks=talks)
        if said.status:
            raise SetupError(f"{shown} ended with {said.status}: {(said.err or said.out).strip()[-500:]}")

    return Step(title=title, shows=(shown,), do=do, wants_root=wants_root, is_done=is_done)


def file_step(host: Host, title: str, path: str, text: str, *, mode: int = 0o644) -> Step:
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
    return Step(
        title=title,
        shows=(f"write {target} (mode {mode:o}):\n{indented.rstrip()}",),
        do=do,
        wants_root=host.root == Path("/"),
        is_done=is_done,
    )


def write_file(target: Path, text: str, *, mode: int) -> None:
    """Puts a new file in the place of any that is there, whose mode, and whoever has it open, would else get the text.

    Raises OSError; then what was there still is.
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


def perform(steps: Sequence[Step], host: Host, *, dry_run: bool, say: Callable[[str], None]) -> list[Step]:
    """Performs the open steps, and returns those that need root. Raises SetupError."""
    left = []
    for step in steps:
        if step.is_done:
            say(f"  done already   {step.title}")
        elif step.wants_root and not host.is_root:
            say(f"  wants root     {step.title}")
            left.append(step)
        elif dry_run:
            say(f"  would do       {step.title}")
            for line in step.shows:
                say("\n".join(f"                 {each}" for each in line.splitlines()))
        else:
            say(f"  doing          {step.title}")
            step.do()
    return left

"""Locks GPU clocks during a measurement, and resets them however it ends.

`locked_clocks` notes the lock before it takes it. A kill that nothing can catch leaves the note, and the next lock, the
doctor and `warpwatch runner reset-clocks` find it. Services need none of this: systemd itself puts clocks back
(ExecStopPost). /run is empty after a start, and so are locks.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import click

from .host import Host
from .installation import CLOCKS, clock_under_load_mhz, free_clock_file
from .nvidia_smi import Gpu, supported_clocks

_FOLDER = "run/lock"  # every user may write there
_OF_WHAT_IT_KEEPS = 0.97  # of the lowest clock under load: so little that power and heat never reach the lock
_ENDS = (signal.SIGTERM, signal.SIGHUP)  # beside Ctrl+C, which raises KeyboardInterrupt
_OF_THE_HIGHEST = 0.75  # where nothing was calibrated


class ClockError(Exception):
    """The clocks cannot be locked; the message gives the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockChoice:
    """The clock chosen for one GPU, and the rule that chose it."""

    card: Gpu
    sm_mhz: int
    memory_mhz: int | None
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock:
    """A record of locked clocks."""

    path: Path
    uuid: str
    sm_mhz: int
    pid: int
    started: str  # of the process, in the kernel's ticks: a number that came again is another process

    @property
    def is_held(self) -> bool:
        """Whether the process still runs."""
        return _started(self.pid) == self.started


def choose(host: Host, card: Gpu, *, wanted_mhz: int | None, under_load_mhz: float | None) -> ClockChoice | None:
    """The SM clock that the card keeps whatever it does: what it is told, what it kept under load, or three quarters.

    None where the card tells no clock at all.
    """
    supported = supported_clocks(lambda *words: host.run("nvidia-smi", *words), card.uuid)
    highest = card.number("clocks.max.sm") or (float(supported[-1]) if supported else None)
    memory = card.number("clocks.max.mem")
    memory_mhz = None if memory is None else int(memory)
    if wanted_mhz is not None:
        return ClockChoice(card=card, sm_mhz=wanted_mhz, memory_mhz=memory_mhz, why="as --sm-clock says")
    if under_load_mhz is not None:
        bound = _OF_WHAT_IT_KEEPS * under_load_mhz
        why = f"the highest up to {_OF_WHAT_IT_KEEPS:.0%} of the {under_load_mhz:.0f} MHz kept under its heaviest load"
    elif highest is not None:
        bound = _OF_THE_HIGHEST * highest
        why = (
            f"the highest up to {_OF_THE_HIGHEST:.0%} of its {highest:.0f} MHz; a calibration would tell what it keeps"
        )
    else:
        return None
    below = [clock for clock in supported if clock <= bound]
    return ClockChoice(card=card, sm_mhz=below[-1] if below else int(bound), memory_mhz=memory_mhz, why=why)


def chosen_clocks(host: Host, wanted: int | None) -> list[ClockChoice]:
    """The clock of each GPU that reports its clocks."""
    chosen = []
    for card in host.gpus.cards:
        kept = clock_under_load_mhz(free_clock_file(host, card.uuid))
        choice = choose(host, card, wanted_mhz=wanted, under_load_mhz=kept)
        if choice is not None:
            chosen.append(choice)
    return chosen


def lock_commands(choice: ClockChoice) -> tuple[tuple[str, ...], ...]:
    """Commands that lock a GPU's clocks; the second fails on GPUs without a memory lock."""
    on = ("nvidia-smi", "-i", choice.card.uuid)
    sm = (*on, f"--lock-gpu-clocks={choice.sm_mhz},{choice.sm_mhz}")
    if choice.memory_mhz is None:
        return (sm,)
    return sm, (*on, f"--lock-memory-clocks={choice.memory_mhz},{choice.memory_mhz}")


def reset_commands(uuid: str) -> tuple[tuple[str, ...], ...]:
    """Commands that reset a GPU's clocks."""
    return ("nvidia-smi", "-i", uuid, "--reset-gpu-clocks"), ("nvidia-smi", "-i", uuid, "--reset-memory-clocks")


@contextmanager
def locked_clocks(host: Host, choices: Sequence[ClockChoice], say: Callable[[str], None]) -> Iterator[None]:
    """Locks the clocks, and resets them at the end, at an error, at Ctrl+C, SIGTERM and SIGHUP.

    What a service holds locked meanwhile is locked again for it. Raises ClockError where it may not, or another process
    holds the lock.
    """
    if host.privilege is None:
        raise ClockError("locking clocks wants root, or sudo without a password")
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, *_ENDS)}

    def stop(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    for number in _ENDS:
        if before[number] is not signal.SIG_IGN:  # as nohup has it
            signal.signal(number, stop)
    noted: list[tuple[ClockChoice, Path]] = []
    try:
        for choice in choices:
            noted.append((choice, _note(host, choice)))
            sm, *others = lock_commands(choice)
            said = host.run(*host.privilege, *sm)
            if said.status:
                raise ClockError(f"{choice.card.uuid} does not lock its SM clock: {said.first_line}")
            for each in others:
                if (refused := host.run(*host.privilege, *each)).status:
                    say(f"its memory clock stays free: {refused.first_line}")
            say(f"{choice.card.name}: SM clock {choice.sm_mhz} MHz, {choice.why}")
        yield
    finally:
        for number in before:
            signal.signal(number, signal.SIG_IGN)  # a second Ctrl+C is not to leave them locked
        for choice, note in noted:
            if _reset(host, choice.card.uuid, say):
                note.unlink(missing_ok=True)
        if noted:
            _lock_for_services(host, say)
        for number, handler in before.items():
            signal.signal(number, handler)


def forgotten_locks(host: Host) -> Iterator[Lock]:
    """Records of processes that ended."""
    for path in sorted((host.root / _FOLDER).glob("warpwatch-clocks-*.json")):
        lock = _read(path)
        if lock is not None and not lock.is_held:
            yield lock


def reset_clocks(host: Host, say: Callable[[str], None]) -> None:
    """Resets the clocks of every GPU, and removes outdated records. Raises ClockError."""
    if host.privilege is None:
        raise ClockError("resetting clocks wants root: sudo warpwatch runner reset-clocks")
    free = {card.uuid for card in host.gpus.cards if _reset(host, card.uuid, say)}
    for lock in forgotten_locks(host):
        if lock.uuid in free:
            lock.path.unlink(missing_ok=True)


def _reset(host: Host, uuid: str, say: Callable[[str], None]) -> bool:
    """Whether the SM clock is free."""
    sm, memory = (host.run(*(host.privilege or ()), *each) for each in reset_commands(uuid))
    if sm.status:
        say(f"{uuid}: its SM clock could not be put back: {sm.first_line}; run nvidia-smi -i {uuid} --reset-gpu-clocks")
    else:
        say(f"{uuid}: clocks are free again" + ("" if memory.status == 0 else " (the memory's cannot be locked)"))
    return sm.status == 0


def _lock_for_services(host: Host, say: Callable[[str], None]) -> None:
    """A service that takes jobs runs on, and believes its clocks locked."""
    if host.run("systemctl", "is-active", "--quiet", CLOCKS).status:
        return
    again = host.run(*(host.privilege or ()), "systemctl", "reload", CLOCKS)
    say(f"locked again for the services: {again.first_line or CLOCKS}")


def _note(host: Host, choice: ClockChoice) -> Path:
    path = host.root / _FOLDER / f"warpwatch-clocks-{choice.card.uuid}.json"
    if (other := _read(path)) is not None and other.is_held:
        raise ClockError(f"{other.uuid} is locked by process {other.pid}, which would free it at its end: wait for it")
    told = {"uuid": choice.card.uuid, "sm_mhz": choice.sm_mhz, "pid": os.getpid(), "started": _started(os.getpid())}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(told))
    except OSError as error:
        raise ClockError(f"cannot note the lock in {path}: {error.strerror}") from error
    return path


def _read(path: Path) -> Lock | None:
    try:
        told = json.loads(path.read_text())
        return Lock(
            path=path,
            uuid=str(told["uuid"]),
            sm_mhz=int(told["sm_mhz"]),
            pid=int(told["pid"]),
            started=str(told["started"]),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _started(pid: int) -> str | None:
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[19]
    except OSError:
        return None


# `warpwatch runner locked COMMAND` and `reset-clocks`: locked clocks by hand, as the services have them.


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option(
    "--sm-clock",
    type=click.IntRange(1),
    metavar="MHZ",
    help="Default: what the card kept under load, by `runner setup`'s calibration.",
)
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
    """Exit status of the command. Raises ClockError."""
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
    """Reset the clocks of every GPU."""
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

"""Locks GPU clocks during a measurement, and resets them however it ends.

`locked_clocks` records the lock before it takes it. SIGKILL leaves the record, which the next lock, the doctor and
`warpwatch runner reset-clocks` find. Services do without: systemd resets their clocks (ExecStopPost). A reboot empties
/run and frees the clocks.
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

from warpwatch.dashboard.cli.output import say

from .calibration_files import clock_under_load_mhz, free_clock_file
from .host import Host
from .nvidia_smi import SmiGpu, supported_clocks
from .service_files import CLOCKS

_FOLDER = "run/lock"  # writable for every user
_SHARE_OF_LOADED_CLOCK = 0.97  # of the lowest clock under load: a margin for power and temperature
_ENDS = (signal.SIGTERM, signal.SIGHUP)  # Ctrl+C raises KeyboardInterrupt
_SHARE_OF_MAX_CLOCK = 0.75  # without a calibration


class ClockError(Exception):
    """The clocks cannot be locked; the message gives the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockChoice:
    """The clock chosen for one GPU, and the rule that chose it."""

    gpu: SmiGpu
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
    started: str  # start of the process, in the kernel's ticks: the kernel may use its pid again

    @property
    def is_held(self) -> bool:
        """Whether the process still runs."""
        return _started(self.pid) == self.started


def choose(host: Host, gpu: SmiGpu, *, requested_mhz: int | None, under_load_mhz: float | None) -> ClockChoice | None:
    """An SM clock that the GPU sustains: the requested one, one below its clock under load, or 75 % of its maximum.

    None if the GPU reports no clocks.
    """
    supported = supported_clocks(lambda *words: host.run("nvidia-smi", *words), gpu.uuid)
    highest = gpu.number("clocks.max.sm") or (float(supported[-1]) if supported else None)
    memory = gpu.number("clocks.max.mem")
    memory_mhz = None if memory is None else int(memory)
    if requested_mhz is not None:
        return ClockChoice(gpu=gpu, sm_mhz=requested_mhz, memory_mhz=memory_mhz, why="as --sm-clock says")
    if under_load_mhz is not None:
        bound = _SHARE_OF_LOADED_CLOCK * under_load_mhz
        why = f"the highest up to {_SHARE_OF_LOADED_CLOCK:.0%} of {under_load_mhz:.0f} MHz, its clock under load"
    elif highest is not None:
        bound = _SHARE_OF_MAX_CLOCK * highest
        why = f"the highest up to {_SHARE_OF_MAX_CLOCK:.0%} of {highest:.0f} MHz, its maximum, as it is not calibrated"
    else:
        return None
    below = [clock for clock in supported if clock <= bound]
    return ClockChoice(gpu=gpu, sm_mhz=below[-1] if below else int(bound), memory_mhz=memory_mhz, why=why)


def chosen_clocks(host: Host, requested_mhz: int | None) -> list[ClockChoice]:
    """The clock of each GPU that reports its clocks."""
    chosen = []
    for gpu in host.gpus.devices:
        under_load_mhz = clock_under_load_mhz(free_clock_file(host, gpu.uuid))
        choice = choose(host, gpu, requested_mhz=requested_mhz, under_load_mhz=under_load_mhz)
        if choice is not None:
            chosen.append(choice)
    return chosen


def lock_commands(choice: ClockChoice) -> tuple[tuple[str, ...], ...]:
    """Commands that lock a GPU's clocks; the second fails on GPUs without a memory lock."""
    prefix = ("nvidia-smi", "-i", choice.gpu.uuid)
    sm = (*prefix, f"--lock-gpu-clocks={choice.sm_mhz},{choice.sm_mhz}")
    if choice.memory_mhz is None:
        return (sm,)
    return sm, (*prefix, f"--lock-memory-clocks={choice.memory_mhz},{choice.memory_mhz}")


def reset_commands(uuid: str) -> tuple[tuple[str, ...], ...]:
    """Commands that reset a GPU's clocks."""
    return ("nvidia-smi", "-i", uuid, "--reset-gpu-clocks"), ("nvidia-smi", "-i", uuid, "--reset-memory-clocks")


@contextmanager
def locked_clocks(host: Host, choices: Sequence[ClockChoice], say: Callable[[str], None]) -> Iterator[None]:
    """Locks the clocks, and resets them at the end, at an error, at Ctrl+C, SIGTERM and SIGHUP.

    Clocks that a service needs locked are locked again afterwards. Raises ClockError without root, or if another
    process holds the lock.
    """
    if host.privilege is None:
        raise ClockError("locking clocks needs root, or sudo without a password")
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, *_ENDS)}

    def stop(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    for number in _ENDS:
        if before[number] is not signal.SIG_IGN:  # nohup ignores SIGHUP
            signal.signal(number, stop)
    recorded: list[tuple[ClockChoice, Path]] = []
    try:
        for choice in choices:
            recorded.append((choice, _record(host, choice)))
            sm, *memory = lock_commands(choice)
            if (done := host.run(*host.privilege, *sm)).status:
                raise ClockError(f"cannot lock the SM clock of {choice.gpu.uuid}: {done.first_line}")
            for command in memory:
                if (done := host.run(*host.privilege, *command)).status:
                    say(f"the memory clock of {choice.gpu.uuid} is not locked: {done.first_line}")
            say(f"{choice.gpu.name}: SM clock {choice.sm_mhz} MHz, {choice.why}")
        yield
    finally:
        for number in before:
            signal.signal(number, signal.SIG_IGN)  # a second Ctrl+C must not leave clocks locked
        for choice, record in recorded:
            if _reset(host, choice.gpu.uuid, say):
                record.unlink(missing_ok=True)
        if recorded:
            _lock_for_services(host, say)
        for number, handler in before.items():
            signal.signal(number, handler)


def stale_locks(host: Host) -> Iterator[Lock]:
    """Records of ended processes."""
    for path in sorted((host.root / _FOLDER).glob("warpwatch-clocks-*.json")):
        lock = _read(path)
        if lock is not None and not lock.is_held:
            yield lock


def reset_clocks(host: Host, say: Callable[[str], None]) -> None:
    """Resets the clocks of every GPU, and removes outdated records. Raises ClockError."""
    if host.privilege is None:
        raise ClockError("resetting clocks needs root: sudo warpwatch runner reset-clocks")
    free = {gpu.uuid for gpu in host.gpus.devices if _reset(host, gpu.uuid, say)}
    for lock in stale_locks(host):
        if lock.uuid in free:
            lock.path.unlink(missing_ok=True)


def _reset(host: Host, uuid: str, say: Callable[[str], None]) -> bool:
    """Resets a GPU's clocks. Returns whether the SM clock is free."""
    sm, memory = (host.run(*(host.privilege or ()), *command) for command in reset_commands(uuid))
    if sm.status:
        say(f"{uuid}: the SM clock could not be reset: {sm.first_line}; run nvidia-smi -i {uuid} --reset-gpu-clocks")
    else:
        say(f"{uuid}: clocks are reset" + ("" if memory.status == 0 else " (the memory clock cannot be locked)"))
    return sm.status == 0


def _lock_for_services(host: Host, say: Callable[[str], None]) -> None:
    """Locks clocks again if a running service needs them locked."""
    if host.run("systemctl", "is-active", "--quiet", CLOCKS).status:
        return
    reloaded = host.run(*(host.privilege or ()), "systemctl", "reload", CLOCKS)
    say(f"locked again for the services: {reloaded.first_line or CLOCKS}")


def _record(host: Host, choice: ClockChoice) -> Path:
    path = host.root / _FOLDER / f"warpwatch-clocks-{choice.gpu.uuid}.json"
    if (other := _read(path)) is not None and other.is_held:
        raise ClockError(f"{other.uuid} is locked by process {other.pid}, which resets it when it ends: wait for it")
    record = {"uuid": choice.gpu.uuid, "sm_mhz": choice.sm_mhz, "pid": os.getpid(), "started": _started(os.getpid())}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(record))
    except OSError as error:
        raise ClockError(f"cannot record the lock in {path}: {error.strerror}") from error
    return path


def _read(path: Path) -> Lock | None:
    try:
        record = json.loads(path.read_text())
        return Lock(
            path=path,
            uuid=str(record["uuid"]),
            sm_mhz=int(record["sm_mhz"]),
            pid=int(record["pid"]),
            started=str(record["started"]),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _started(pid: int) -> str | None:
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[19]
    except OSError:
        return None


# `warpwatch runner locked COMMAND` and `warpwatch runner reset-clocks`.


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option(
    "--sm-clock",
    type=click.IntRange(1),
    metavar="MHZ",
    help="Default: by the clock under load that `runner setup` measured.",
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
    for lock in stale_locks(host):
        say(f"process {lock.pid} left {lock.uuid} locked to {lock.sm_mhz} MHz")
    choices = chosen_clocks(host, sm_clock)
    if not choices:
        say("no GPU reports its clocks: nothing is locked")
        return _run(command)
    with locked_clocks(host, choices, say):
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

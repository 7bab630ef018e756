"""Host lock: one measurement at a time on a GPU, also for the command that it is held for."""

import fcntl
import getpass
import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import click

from .acceptance.grammar import shown
from .gpus import visible_gpus

# One measurement at a time on a GPU: an advisory lock of this host, named after the card.
#
# It is a flock, so the kernel gives it back when the last process that holds it ends, however it ends. A measuring
# child that was handed its descriptors keeps it though its parent was killed: what still measures still disturbs.

_POLL_S = 0.5
_MACHINE = "machine"  # where there is no GPU
_CREDENTIALS = re.compile(r"://[^/\s@]*@")  # of an address: others' logs say what is noted


class HostLockError(Exception):
    """The lock's file cannot be used; the message says why."""


class GpuBusyError(HostLockError):
    """Another process measured for longer than one would wait; the message says which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Who measures."""

    pid: int
    user: str
    command: str
    since: str  # ISO 8601, UTC

    def __str__(self) -> str:
        return f"process {self.pid} of {self.user} since {self.since} ({self.command})"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldLock:
    """What is held. `descriptors` go to a measuring child as `subprocess`'s `pass_fds`."""

    names: tuple[str, ...]
    descriptors: tuple[int, ...]


@contextmanager
def gpu_lock(
    names: Sequence[str] | None = None,
    *,
    wait_s: float | None = None,
    say: Callable[[str], None] = lambda line: None,
    folder: Path | None = None,
) -> Iterator[HeldLock]:
    """Holds the locks of these GPUs, or of all that this process may use; without any that of the machine.

    Waits `wait_s` seconds in all, forever if None, and says for whom. A command takes it once: it is not re-entrant.
    Raises HostLockError.
    """
    wanted = sorted(set(names if names is not None else visible_gpus())) or [_MACHINE]  # one order: no two wait in turn
    where = folder or lock_folder()
    deadline = None if wait_s is None else time.monotonic() + wait_s
    with ExitStack() as held:
        descriptors = []
        for name in wanted:
            path = where / f"warpwatch-{name}.lock"
            try:
                descriptor = _open(path)
            except OSError as error:
                raise HostLockError(
                    f"cannot lock {name}: {path}: {error.strerror}; see WARPWATCH_LOCK_FOLDER"
                ) from error
            held.callback(os.close, descriptor)
            _take(descriptor, name, deadline, say)
            held.callback(os.ftruncate, descriptor, 0)
            descriptors.append(descriptor)
        yield HeldLock(names=tuple(wanted), descriptors=tuple(descriptors))


def lock_folder() -> Path:
    """The same for every user of the host and for services with a /tmp of their own; WARPWATCH_LOCK_FOLDER is another.

    Containers that share a GPU have to share that folder too.
    """
    stated = os.environ.get("WARPWATCH_LOCK_FOLDER")
    if stated:
        return Path(stated)
    run_lock = Path("/run/lock")
    return run_lock if run_lock.is_dir() and run_lock.stat().st_mode & 0o002 else Path("/tmp")


def _open(path: Path) -> int:
    """The lock's file, which every user may write into and nobody removes."""
    while True:
        try:
            # Not O_CREAT: in a sticky folder the kernel refuses it for a file that another user owns.
            return os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            try:
                descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
            except FileExistsError:
                continue
            os.fchmod(descriptor, 0o666)  # whatever the umask
            return descriptor


def _take(descriptor: int, name: str, deadline: float | None, say: Callable[[str], None]) -> None:
    told: Holder | None = None
    is_first = True
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _holder(descriptor)
            if deadline is not None and time.monotonic() >= deadline:
                raise GpuBusyError(f"{name} is measured on by {holder or 'another process'}") from None
            if is_first or holder != told:
                say(f"waiting for {name}, which is measured on by {holder or 'another process'}")
            is_first, told = False, holder
            time.sleep(_POLL_S)
        else:
            _note(descriptor)
            return


def _note(descriptor: int) -> None:
    """Tells those who wait who it is."""
    command = shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])
    holder = Holder(
        pid=os.getpid(),
        user=_user(),
        command=_CREDENTIALS.sub("://…@", command)[:300],
        since=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, json.dumps(asdict(holder)).encode(), 0)


def _holder(descriptor: int) -> Holder | None:
    """None where it has not said yet. Any user may write there: what is said is made fit for a terminal."""
    try:
        told = json.loads(os.pread(descriptor, 4096, 0))
        user, command, since = (shown(str(told[name])) for name in ("user", "command", "since"))
        return Holder(pid=int(told["pid"]), user=user, command=command, since=since)
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user id without a name, as containers have
        return str(os.getuid())


# `warpwatch runner alone`: run a command while nothing else of warpwatch measures on this GPU.


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--wait", "wait_s", type=click.FloatRange(0), metavar="SECONDS", help="Then give up; default: never.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def alone(wait_s: float | None, command: tuple[str, ...]) -> None:
    """Run a command alone on this GPU.

    Waits until no gate, bisect or other `warpwatch runner alone` measures on this GPU, or without a GPU on this host.
    Exit status: the command's; 75 if another measured for too long, and 127 if it cannot be started.
    """
    try:
        with gpu_lock(wait_s=wait_s, say=lambda line: click.echo(line, err=True)) as held:
            done = _run(command, held)
    except HostLockError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(75)  # EX_TEMPFAIL: try again
    sys.exit(done.returncode if done.returncode >= 0 else 128 - done.returncode)


def _run(command: tuple[str, ...], held: HeldLock) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(command, pass_fds=held.descriptors)
    except OSError as error:
        click.echo(f"Error: {command[0]}: {error.strerror}", err=True)
        sys.exit(127)

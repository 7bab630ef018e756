"""Host lock: an advisory lock, so that only one process at a time measures on a GPU; and the visible GPUs."""

import fcntl
import getpass
import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import click

from .acceptance import printable

# The lock is a flock on a file named after the GPU: the kernel releases it when the last holding process ends. A child
# that inherited the descriptors holds the lock even if its parent was killed, since it still uses the GPU.

_POLL_S = 0.5
_MACHINE = "machine"  # the lock's name on a host without a GPU
_CREDENTIALS = re.compile(r"://[^/\s@]*@")  # in an address: other users' logs show the holder's command


class HostLockError(Exception):
    """The lock's file cannot be used; the message gives the reason."""


class GpuBusyError(HostLockError):
    """Another process held the lock for too long; the message names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """The process that holds a lock."""

    pid: int
    user: str
    command: str
    since: str  # ISO 8601, UTC

    def __str__(self) -> str:
        return f"process {self.pid} of {self.user} since {self.since} ({self.command})"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldLock:
    """Locks held by this process. Pass `descriptors` to a measuring child as `subprocess`'s `pass_fds`."""

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
    """Holds the locks of these GPUs, default: of all visible ones; without a GPU, the machine's lock.

    Waits `wait_s` seconds in all, forever if None, and reports the holder. Not re-entrant. Raises HostLockError.
    """
    names = sorted(set(names if names is not None else visible_gpus())) or [_MACHINE]  # one order prevents deadlocks
    folder = folder or lock_folder()
    deadline = None if wait_s is None else time.monotonic() + wait_s
    with ExitStack() as locks:
        descriptors = []
        for name in names:
            path = folder / f"warpwatch-{name}.lock"
            try:
                descriptor = open_shared(path)
            except OSError as error:
                raise HostLockError(
                    f"cannot lock {name}: {path}: {error.strerror}; see WARPWATCH_LOCK_FOLDER"
                ) from error
            locks.callback(os.close, descriptor)
            _acquire(descriptor, name, deadline, say)
            locks.callback(os.ftruncate, descriptor, 0)
            descriptors.append(descriptor)
        yield HeldLock(names=tuple(names), descriptors=tuple(descriptors))


def lock_folder() -> Path:
    """WARPWATCH_LOCK_FOLDER, else a folder that all users share, and services with a private /tmp too.

    Containers that share a GPU must share this folder.
    """
    chosen = os.environ.get("WARPWATCH_LOCK_FOLDER")
    if chosen:
        return Path(chosen)
    run_lock = Path("/run/lock")
    return run_lock if run_lock.is_dir() and run_lock.stat().st_mode & 0o002 else Path("/tmp")


def open_shared(path: Path) -> int:
    """Opens a file that is writable for every user and never removed. Raises OSError."""
    while True:
        try:
            # Without O_CREAT, which the kernel refuses in a sticky folder for another user's file.
            return os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            try:
                descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
            except FileExistsError:
                continue
            os.fchmod(descriptor, 0o666)  # independent of the umask
            return descriptor


def _acquire(descriptor: int, name: str, deadline: float | None, say: Callable[[str], None]) -> None:
    reported: Holder | None = None
    is_first = True
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _holder(descriptor)
            if deadline is not None and time.monotonic() >= deadline:
                raise GpuBusyError(f"{name} is in use by {holder or 'another process'}") from None
            if is_first or holder != reported:
                say(f"waiting for {name}, which is in use by {holder or 'another process'}")
            is_first, reported = False, holder
            time.sleep(_POLL_S)
        else:
            _write_holder(descriptor)
            return


def _write_holder(descriptor: int) -> None:
    """Writes this process into the lock's file, for messages of waiting processes."""
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
    """The holder in the lock's file, without control characters, as any user can write there; None if unknown."""
    try:
        fields = json.loads(os.pread(descriptor, 4096, 0))
        user, command, since = (printable(str(fields[name])) for name in ("user", "command", "since"))
        return Holder(pid=int(fields["pid"]), user=user, command=command, since=since)
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user id without a name, as containers have
        return str(os.getuid())


@click.command("with-gpu-lock", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--wait", "wait_s", type=click.FloatRange(0), metavar="SECONDS", help="Longest wait; default: unlimited.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def with_gpu_lock(wait_s: float | None, command: tuple[str, ...]) -> None:
    """Run a command while holding the lock of this GPU, or of this host if it has no GPU.

    Waits until no gate, bisect or other `warpwatch runner with-gpu-lock` holds the lock. Exit status: the command's;
    75 if the lock was not free in time, and 127 if the command cannot be started.
    """
    try:
        with gpu_lock(wait_s=wait_s, say=lambda line: click.echo(line, err=True)) as lock:
            done = _run(command, lock)
    except HostLockError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(75)  # EX_TEMPFAIL: try again
    sys.exit(done.returncode if done.returncode >= 0 else 128 - done.returncode)


def _run(command: tuple[str, ...], lock: HeldLock) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(command, pass_fds=lock.descriptors)
    except OSError as error:
        click.echo(f"Error: {command[0]}: {error.strerror}", err=True)
        sys.exit(127)


_GPU = re.compile(r"GPU (?P<index>\d+): (?P<name>.*) \(UUID: (?P<uuid>GPU-[\w-]+)\)")
_MIG_DEVICE = re.compile(r"\s+MIG .*\(UUID: (?P<uuid>MIG-[^)\s]+)\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Gpu:
    index: int  # by PCI bus, as in nvidia-smi
    name: str
    uuid: str
    mig_devices: list[str] = field(default_factory=list)  # UUIDs


def visible_gpus(environ: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """UUIDs of the physical GPUs in CUDA_VISIBLE_DEVICES, in order; a MIG device counts as its GPU.

    Empty without a driver. CUDA numbers different models by speed unless CUDA_DEVICE_ORDER is PCI_BUS_ID; a number is
    then ambiguous, and means every GPU.
    """
    environ = os.environ if environ is None else environ
    gpus = _all_gpus(environ)
    selection = environ.get("CUDA_VISIBLE_DEVICES")
    if selection is None:
        return tuple(gpu.uuid for gpu in gpus)
    by_bus = len({gpu.name for gpu in gpus}) < 2 or environ.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"
    visible: list[str] = []
    for word in selection.split(","):
        word = word.strip()
        if word.isdecimal():
            matches = [gpu for gpu in gpus if gpu.index == int(word) or not by_bus]
        else:
            matches = [gpu for gpu in gpus if word and any(u.startswith(word) for u in (gpu.uuid, *gpu.mig_devices))]
        if not matches:
            break  # CUDA ignores all names behind the first unknown one
        visible += [gpu.uuid for gpu in matches]
    return tuple(dict.fromkeys(visible))


def _all_gpus(environ: Mapping[str, str]) -> list[_Gpu]:
    try:
        done = subprocess.run(["nvidia-smi", "-L"], env=environ, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):  # missing, or not executable
        return []
    gpus: list[_Gpu] = []
    for line in done.stdout.splitlines():
        if match := _GPU.match(line):
            gpus.append(_Gpu(index=int(match["index"]), name=match["name"], uuid=match["uuid"]))
        elif (match := _MIG_DEVICE.match(line)) and gpus:
            gpus[-1].mig_devices.append(match["uuid"])
    return gpus

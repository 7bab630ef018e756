"""The queue on disk: parcels that wait for a dashboard, in order, and what of the results was queued before.

A parcel is there whole or not at all (written beside, synced, renamed), and is removed only after the dashboard has
answered. What is killed in between is sent twice at most, and the dashboard knows the same content again.

    waiting/0000000012-5874c1fb….tar.zst    to be sent, lowest number first; the name holds a SHA-256 of the content
    refused/…                               what the dashboard set aside, with its reasons in a .txt beside it
    known.json                              of each result file the stamp and digest it had when it was queued
    destination.json                        for people: where to
"""

import fcntl
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

_SUFFIX = ".tar.zst"
_DIGITS = 10
_TEMPORARY = ".part-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A result file as it was when it was last queued."""

    stamp: str
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Parcel:
    """One that waits."""

    path: Path

    @property
    def number(self) -> int:
        """Its place in the queue."""
        return int(self.path.name[:_DIGITS])

    def body(self) -> bytes:
        """The archive. Raises OSError."""
        return self.path.read_bytes()


def default_spool() -> Path:
    """Where queues are kept unless told otherwise: the user's state folder (XDG Base Directory Specification)."""
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "warpwatch" / "push"


def spool_for(root: Path, server: str, project: str) -> "Spool":
    """The queue of one project at one dashboard, below the folder of all. Raises OSError where it cannot be made."""
    name = hashlib.sha256(f"{server}\n{project}".encode()).hexdigest()[:16]
    spool = Spool(root / name)
    if not (spool.folder / "destination.json").is_file():
        spool.write("destination.json", json.dumps({"server": server, "project": project}).encode())
    return spool


class Spool:
    """One queue. Who adds to it holds `queueing`, who sends from it `sending`; both end with the process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._waiting, self.refused = folder / "waiting", folder / "refused"
        for each in (self._waiting, self.refused):
            each.mkdir(parents=True, exist_ok=True, mode=0o700)

    @contextmanager
    def queueing(self) -> Iterator[None]:
        """Alone in adding; what a dead one left half written is removed."""
        with _locked(self.folder / "queueing.lock", waits=True):
            for left in self._waiting.glob(f"{_TEMPORARY}*"):
                left.unlink(missing_ok=True)
            yield

    @contextmanager
    def sending(self, *, waits: bool) -> Iterator[bool]:
        """Alone in sending; False where somebody else is and this one does not wait."""
        with _locked(self.folder / "sending.lock", waits=waits) as is_ours:
            yield is_ours

    def waiting(self) -> tuple[Parcel, ...]:
        """What waits, first come first."""
        return tuple(Parcel(path=path) for path in sorted(self._waiting.glob(f"*{_SUFFIX}")))

    def add(self, body: bytes) -> Parcel:
        """Puts a parcel at the end, unless it waits already. Raises OSError."""
        digest = hashlib.sha256(body).hexdigest()[:32]
        waiting = self.waiting()
        for parcel in waiting:
            if parcel.path.name == f"{parcel.number:0{_DIGITS}d}-{digest}{_SUFFIX}":
                return parcel
        number = waiting[-1].number + 1 if waiting else 1
        path = self._waiting / f"{number:0{_DIGITS}d}-{digest}{_SUFFIX}"
        _write_whole(path, body)
        return Parcel(path=path)

    def replace(self, parcel: Parcel, bodies: Sequence[bytes]) -> None:
        """Puts others in the place of a parcel, before all that follow. Raises OSError; then nothing is lost."""
        for place, body in enumerate(bodies):
            digest = hashlib.sha256(body).hexdigest()[:32]
            _write_whole(self._waiting / f"{parcel.number:0{_DIGITS}d}-{place}-{digest}{_SUFFIX}", body)
        self.remove(parcel)

    def remove(self, parcel: Parcel) -> None:
        """Takes a parcel out that the dashboard has."""
        parcel.path.unlink(missing_ok=True)
        _sync(self._waiting)

    def put_aside(self, parcel: Parcel, reasons: Sequence[str]) -> None:
        """Takes a parcel out of which the dashboard did not take everything, and keeps it with the reasons."""
        target = self.refused / f"{parcel.path.name.split('-')[-1]}"
        with suppress(OSError):  # a full disk: the parcel itself matters more
            _write_whole(target.with_name(f"{target.name}.txt"), "".join(f"{each}\n" for each in reasons).encode())
        parcel.path.replace(target)
        _sync(self.refused)
        _sync(self._waiting)

    def queue_refused(self) -> int:
        """Puts what was set aside at the end of the queue again; returns how many parcels."""
        count = 0
        for path in sorted(self.refused.glob(f"*{_SUFFIX}")):
            self.add(path.read_bytes())
            path.unlink()
            path.with_name(f"{path.name}.txt").unlink(missing_ok=True)
            count += 1
        return count

    def known(self) -> dict[str, Known]:
        """Of the result files, what was queued. Without the file, or with a broken one, nothing: then all is new."""
        try:
            told = json.loads((self.folder / "known.json").read_bytes())
            return {name: Known(stamp=stamp, digest=digest) for name, (stamp, digest) in told.items()}
        except (OSError, ValueError, TypeError, AttributeError):
            return {}

    def note(self, known: Mapping[str, Known]) -> None:
        """Remembers what was queued, once the parcels are on disk. Raises OSError."""
        told = {name: (each.stamp, each.digest) for name, each in known.items()}
        self.write("known.json", json.dumps(told).encode())

    def write(self, name: str, text: bytes) -> None:
        """A file of the queue's own, whole or as it was. Raises OSError."""
        _write_whole(self.folder / name, text)


def _write_whole(path: Path, text: bytes) -> None:
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=_TEMPORARY)
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync(path.parent)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _locked(path: Path, *, waits: bool) -> Iterator[bool]:
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
            return
        yield True

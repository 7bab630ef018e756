"""The queue on disk: batches of results for a dashboard, and records of queued results.

A batch is written atomically (temporary file, fsync, rename) and removed only after the dashboard has answered. A kill
in between sends it twice at most, and the dashboard recognizes equal content.

    waiting/0000000012-5874c1fb….tar.zst    to send, lowest number first; the name has a SHA-256 of the content
    refused/…                               batches with rejected files, each with the reasons in a .txt
    known.json                              stamp and digest of each queued result file
    destination.json                        for people: server and project
"""

import hashlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

_SUFFIX = ".tar.zst"
_DIGITS = 10
_TEMPORARY = ".part-"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownFile:
    """A result file when it was last queued."""

    stamp: str
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A queued archive of results."""

    path: Path

    @property
    def number(self) -> int:
        """Position in the queue."""
        return int(self.path.name[:_DIGITS])

    def body(self) -> bytes:
        """The archive. Raises OSError."""
        return self.path.read_bytes()


def default_queue_folder() -> Path:
    """The default folder of queues: the user's state folder (XDG Base Directory Specification)."""
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "warpwatch" / "push"


def open_queue(root: Path, server: str, project: str) -> "PushQueue":
    """The queue of one project at one dashboard, in a folder below `root`. Raises OSError."""
    name = hashlib.sha256(f"{server}\n{project}".encode()).hexdigest()[:16]
    queue = PushQueue(root / name)
    if not (queue.folder / "destination.json").is_file():
        queue.write("destination.json", json.dumps({"server": server, "project": project}).encode())
    return queue


class PushQueue:
    """One queue. Adding requires the lock `queueing`, sending the lock `sending`; both end with the process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._waiting, self.refused = folder / "waiting", folder / "refused"
        for subfolder in (self._waiting, self.refused):
            subfolder.mkdir(parents=True, exist_ok=True, mode=0o700)

    @contextmanager
    def queueing(self) -> Iterator[None]:
        """The lock for adding; removes temporary files of killed processes."""
        with FileLock(self.folder / "queueing.lock"):
            for temporary in self._waiting.glob(f"{_TEMPORARY}*"):
                temporary.unlink(missing_ok=True)
            yield

    @contextmanager
    def sending(self, *, waits: bool) -> Iterator[bool]:
        """The lock for sending; False if another process has it and `waits` is false."""
        lock = FileLock(self.folder / "sending.lock", blocking=waits)
        try:
            with suppress(Timeout):
                lock.acquire()
            yield lock.is_locked
        finally:
            lock.release()

    def waiting(self) -> tuple[Batch, ...]:
        """The queued batches, oldest first."""
        return tuple(Batch(path=path) for path in sorted(self._waiting.glob(f"*{_SUFFIX}")))

    def add(self, body: bytes) -> Batch:
        """Adds a batch at the end unless it is queued already. Raises OSError."""
        digest = hashlib.sha256(body).hexdigest()[:32]
        waiting = self.waiting()
        for batch in waiting:
            if batch.path.name == f"{batch.number:0{_DIGITS}d}-{digest}{_SUFFIX}":
                return batch
        number = waiting[-1].number + 1 if waiting else 1
        path = self._waiting / f"{number:0{_DIGITS}d}-{digest}{_SUFFIX}"
        write_atomically(path, body)
        return Batch(path=path)

    def replace(self, batch: Batch, bodies: Sequence[bytes]) -> None:
        """Replaces a batch by others at its position. Raises OSError and loses nothing."""
        for part, body in enumerate(bodies):
            digest = hashlib.sha256(body).hexdigest()[:32]
            write_atomically(self._waiting / f"{batch.number:0{_DIGITS}d}-{part}-{digest}{_SUFFIX}", body)
        self.remove(batch)

    def remove(self, batch: Batch) -> None:
        batch.path.unlink(missing_ok=True)
        _sync(self._waiting)

    def quarantine(self, batch: Batch, reasons: Sequence[str]) -> None:
        """Moves a batch with rejected files to `refused/`, with the reasons."""
        target = self.refused / f"{batch.path.name.split('-')[-1]}"
        with suppress(OSError):  # a full disk; the batch itself matters more
            write_atomically(target.with_name(f"{target.name}.txt"), "".join(f"{each}\n" for each in reasons).encode())
        batch.path.replace(target)
        _sync(self.refused)
        _sync(self._waiting)

    def requeue_refused(self) -> int:
        """Queues the refused batches again; returns how many."""
        count = 0
        for path in sorted(self.refused.glob(f"*{_SUFFIX}")):
            self.add(path.read_bytes())
            path.unlink()
            path.with_name(f"{path.name}.txt").unlink(missing_ok=True)
            count += 1
        return count

    def known(self) -> dict[str, KnownFile]:
        """The queued result files by name; empty if known.json is missing or invalid, so that all files are new."""
        try:
            entries = json.loads((self.folder / "known.json").read_bytes())
            return {name: KnownFile(stamp=stamp, digest=digest) for name, (stamp, digest) in entries.items()}
        except (OSError, ValueError, TypeError, AttributeError):
            return {}

    def save_known(self, known: Mapping[str, KnownFile]) -> None:
        """Records the queued files, once their batches are on disk. Raises OSError."""
        entries = {name: (each.stamp, each.digest) for name, each in known.items()}
        self.write("known.json", json.dumps(entries).encode())

    def write(self, name: str, text: bytes) -> None:
        """Writes a file of the queue atomically. Raises OSError."""
        write_atomically(self.folder / name, text)


def write_atomically(path: Path, text: bytes) -> None:
    """Writes a whole file or none, which survives a power failure. Raises OSError."""
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

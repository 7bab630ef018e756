"""Batches of result files: asv's files below a folder, packed for one request; and archives of single runs.

asv overwrites a commit's result file with each run, so a run is archived before the next. The archives lie next to the
results, where asv does not look, so that any push of the folder sends them:

    .asv/results/.runs/0000000003-5874c1fb….tar.zst    oldest first; the name has a SHA-256 of the content
"""

import hashlib
import io
import json
import tarfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import zstandard

from warpwatch.dashboard.importers.asv_folder import result_files

from .queue import write_atomically

_STILL_WRITTEN_S = 60  # asv writes in pieces: a younger file without complete JSON is still being written
_MACHINE, _BENCHMARKS = "machine.json", "benchmarks.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A result file, not read yet."""

    name: str  # relative to the results folder, as in the store: "t4-1/5874c1fb-virtualenv.json"
    path: Path
    stamp: str  # size, time and inode of the file and its context; it differs if the file may have changed


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedResult:
    """Content of a result file and its context."""

    result: Result
    members: tuple[tuple[str, bytes], ...]  # names as in the results folder
    digest: str

    @property
    def size(self) -> int:
        """Total bytes."""
        return sum(len(text) for _, text in self.members)


def find_results(results: Path) -> Iterator[Result]:
    """All result files of all machines, by name."""
    for folder in sorted(path for path in results.iterdir() if path.is_dir()):
        for path in result_files(folder):
            stamps = [_stamp(each) for each in (path, _context(path))]
            if stamps[0] is not None:
                name = path.relative_to(results).as_posix()
                yield Result(name=name, path=path, stamp=" ".join(each or "-" for each in stamps))


def load_result(result: Result) -> LoadedResult | None:
    """The content; None while asv writes the file: it vanished, changed, or is new without complete JSON.

    An older invalid file is read too: the server reports the error.
    """
    members = []
    try:
        for path in (result.path, _context(result.path)):
            if path.is_file():
                members.append((f"{Path(result.name).parent}/{path.name}", path.read_bytes()))
    except OSError:
        return None
    stamps = [_stamp(each) for each in (result.path, _context(result.path))]
    if result.stamp != " ".join(each or "-" for each in stamps):
        return None
    if not _is_json(members[0][1]) and time.time() - result.path.stat().st_mtime < _STILL_WRITTEN_S:
        return None
    digest = hashlib.sha256()
    for name, text in members:
        digest.update(f"{name} {len(text)} ".encode("utf-8", "surrogatepass"))
        digest.update(text)
    return LoadedResult(result=result, members=tuple(members), digest=digest.hexdigest())


def listing_files(results: Path, machines: set[str]) -> tuple[tuple[str, bytes], ...]:
    """`benchmarks.json` and the `machine.json` of these machines, if readable."""
    names = [_BENCHMARKS, *(f"{machine}/{_MACHINE}" for machine in sorted(machines))]
    return tuple((name, (results / name).read_bytes()) for name in names if _is_json_file(results / name))


def _context(path: Path) -> Path:
    return path.with_suffix(".context.jsonl")


def _stamp(path: Path) -> str | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return f"{status.st_size}:{status.st_mtime_ns}:{status.st_ino}"


def _is_json_file(path: Path) -> bool:
    try:
        return _is_json(path.read_bytes())
    except OSError:
        return False


def _is_json(text: bytes) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


_MOST_BYTES = 64 * 2**20  # before compression; well below a server's default limit
_MOST_FILES = 500
_LEVEL = 9  # compresses results to a tenth; higher levels take longer than they save
Member = tuple[str, bytes]


def group_results(results: Iterable[LoadedResult]) -> Iterator[list[LoadedResult]]:
    """Results grouped into batches, in order. A result beyond the limit gets its own batch."""
    group: list[LoadedResult] = []
    size = 0
    for result in results:
        if group and (size + result.size > _MOST_BYTES or len(group) == _MOST_FILES):
            yield group
            group, size = [], 0
        group.append(result)
        size += result.size
    if group:
        yield group


def pack(members: Iterable[Member]) -> bytes:
    """The archive. Its bytes depend only on names and content, so that equal batches have equal digests."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, text in sorted(members):
            info = tarfile.TarInfo(name)
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text))
    return zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True).compress(packed.getvalue())


def unpack(body: bytes) -> tuple[Member, ...]:
    with tarfile.open(fileobj=io.BytesIO(zstandard.ZstdDecompressor().decompress(body)), mode="r:") as tar:
        members = []
        for info in tar:
            file = tar.extractfile(info)
            assert file is not None
            members.append((info.name, file.read()))
        return tuple(members)


def split(body: bytes) -> tuple[bytes, bytes] | None:
    """Two batches with half the results each; None for a batch with one result."""
    members = unpack(body)
    results = sorted(name for name, _ in members if _is_result(name))
    if len(results) < 2:
        return None
    middle = (len(results) + 1) // 2
    return _subset(members, set(results[:middle])), _subset(members, set(results[middle:]))


def count_results(body: bytes) -> int:
    """Number of result files in a batch."""
    return sum(_is_result(name) for name, _ in unpack(body))


def _subset(members: tuple[Member, ...], results: set[str]) -> bytes:
    stems = {name.removesuffix(".json") for name in results}
    machines = {name.rpartition("/")[0] for name in results}

    def belongs(name: str) -> bool:
        if name.endswith(".context.jsonl"):
            return name.removesuffix(".context.jsonl") in stems
        folder, _, file = name.rpartition("/")
        return name in results or not folder or (file == "machine.json" and folder in machines)

    return pack(member for member in members if belongs(member[0]))


def _is_result(name: str) -> bool:
    folder, _, file = name.rpartition("/")
    return bool(folder) and file.endswith(".json") and file != "machine.json"


_FOLDER, _SUFFIX = ".runs", ".tar.zst"
_DIGITS = 10
_KEPT_DAYS = 30  # so long may a push be away


class RunArchiveError(Exception):
    """A run cannot be archived; the message names the file."""


def archive_run(results: Path, commit: str) -> None:
    """Archives the result files of a commit (full hash) as they are now, if there are any. Raises RunArchiveError."""
    try:
        _archive(results, commit)
    except OSError as error:
        raise RunArchiveError(
            f"cannot archive the results of {commit[:8]} before a run overwrites them: {error.filename or results}:"
            f" {error.strerror}"
        ) from error


def _archive(results: Path, commit: str) -> None:
    if not results.is_dir():
        return
    own = [found for found in find_results(results) if commit.startswith(Path(found.name).name.partition("-")[0])]
    loaded = [read for found in own if (read := load_result(found)) is not None]
    if not loaded:
        return
    machines = {str(Path(each.result.name).parent) for each in loaded}
    body = pack([*(member for each in loaded for member in each.members), *listing_files(results, machines)])
    digest, folder = hashlib.sha256(body).hexdigest()[:32], results / _FOLDER
    folder.mkdir(exist_ok=True)
    archived = sorted(folder.glob(f"*{_SUFFIX}"))
    if any(path.name.endswith(f"-{digest}{_SUFFIX}") for path in archived):
        return
    number = int(archived[-1].name[:_DIGITS]) + 1 if archived else 1
    path = folder / f"{number:0{_DIGITS}d}-{digest}{_SUFFIX}"
    write_atomically(path, body)
    path.chmod(0o644)  # the user that pushes is another one
    for old in archived:
        if old.stat().st_mtime < time.time() - _KEPT_DAYS * 24 * 3600:
            old.unlink(missing_ok=True)


def archived_runs(results: Path) -> Iterator[Result]:
    """The archives of a results folder, oldest first."""
    for path in sorted((results / _FOLDER).glob(f"*{_SUFFIX}")):
        yield Result(name=path.relative_to(results).as_posix(), path=path, stamp=path.name)

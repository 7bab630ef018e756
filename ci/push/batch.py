"""Batches of result files: what is new below a folder, packed for one request."""

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

# The result files of asv that lie below a folder, each with the context file that belongs to it.

_STILL_WRITTEN_S = 60  # asv writes a file in pieces: one that is no whole JSON may be so young
_MACHINE, _BENCHMARKS = "machine.json", "benchmarks.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A result file as it was found, not read yet."""

    name: str  # below the results folder, as the store knows it: "t4-1/5874c1fb-virtualenv.json"
    path: Path
    stamp: str  # of its size, time and inode, and its context's: another one means that it may have changed


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadResult:
    """What a result file and its context held when they were read."""

    result: Result
    members: tuple[tuple[str, bytes], ...]  # names as in the results folder
    digest: str

    @property
    def size(self) -> int:
        """Bytes of all of it."""
        return sum(len(text) for _, text in self.members)


def find_results(results: Path) -> Iterator[Result]:
    """All result files of all machines, in order of name."""
    for folder in sorted(path for path in results.iterdir() if path.is_dir()):
        for path in result_files(folder):
            stamps = [_stamp(each) for each in (path, _context(path))]
            if stamps[0] is not None:
                name = path.relative_to(results).as_posix()
                yield Result(name=name, path=path, stamp=" ".join(each or "-" for each in stamps))


def read_result(result: Result) -> ReadResult | None:
    """Its content, or None while asv is at it: it went, changed under the reading, or is young and no whole JSON.

    A file that stays broken is read as it is: the server says what is wrong with it.
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
    if not _is_whole(members[0][1]) and time.time() - result.path.stat().st_mtime < _STILL_WRITTEN_S:
        return None
    digest = hashlib.sha256()
    for name, text in members:
        digest.update(f"{name} {len(text)} ".encode("utf-8", "surrogatepass"))
        digest.update(text)
    return ReadResult(result=result, members=tuple(members), digest=digest.hexdigest())


def what_lists_them(results: Path, machines: set[str]) -> tuple[tuple[str, bytes], ...]:
    """`benchmarks.json` and the `machine.json` of these machines' folders, as far as they can be read."""
    names = [_BENCHMARKS, *(f"{machine}/{_MACHINE}" for machine in sorted(machines))]
    return tuple((name, (results / name).read_bytes()) for name in names if _is_whole_file(results / name))


def _context(path: Path) -> Path:
    return path.with_suffix(".context.jsonl")


def _stamp(path: Path) -> str | None:
    try:
        told = path.stat()
    except OSError:
        return None
    return f"{told.st_size}:{told.st_mtime_ns}:{told.st_ino}"


def _is_whole_file(path: Path) -> bool:
    try:
        return _is_whole(path.read_bytes())
    except OSError:
        return False


def _is_whole(text: bytes) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


_MOST_BYTES = 64 * 2**20  # before compression; what a server with its default limits takes several times over
_MOST_FILES = 500
_LEVEL = 9  # JSON of results goes down to a tenth; higher levels take longer than they save
Member = tuple[str, bytes]


def groups(results: Iterable[ReadResult]) -> Iterator[list[ReadResult]]:
    """Results in their order, as many together as make a parcel. One larger than that is alone."""
    together: list[ReadResult] = []
    size = 0
    for result in results:
        if together and (size + result.size > _MOST_BYTES or len(together) == _MOST_FILES):
            yield together
            together, size = [], 0
        together.append(result)
        size += result.size
    if together:
        yield together


def pack(members: Iterable[Member]) -> bytes:
    """The archive. Its bytes depend on names and content alone, so that they tell whether it was packed before."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, text in sorted(members):
            about = tarfile.TarInfo(name)
            about.size = len(text)
            tar.addfile(about, io.BytesIO(text))
    return zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True).compress(packed.getvalue())


def unpack(body: bytes) -> tuple[Member, ...]:
    """The members of a parcel of ours."""
    with tarfile.open(fileobj=io.BytesIO(zstandard.ZstdDecompressor().decompress(body)), mode="r:") as tar:
        found = []
        for about in tar:
            file = tar.extractfile(about)
            assert file is not None
            found.append((about.name, file.read()))
        return tuple(found)


def halves(body: bytes) -> tuple[bytes, bytes] | None:
    """The parcel as two of half the results each, or None of one with a single result."""
    members = unpack(body)
    results = sorted(name for name, _ in members if _is_result(name))
    if len(results) < 2:
        return None
    middle = (len(results) + 1) // 2
    return _only(members, set(results[:middle])), _only(members, set(results[middle:]))


def results_in(body: bytes) -> int:
    """How many result files a parcel holds."""
    return sum(_is_result(name) for name, _ in unpack(body))


def _only(members: tuple[Member, ...], results: set[str]) -> bytes:
    stems = {name.removesuffix(".json") for name in results}
    machines = {name.rpartition("/")[0] for name in results}

    def stays(name: str) -> bool:
        if name.endswith(".context.jsonl"):
            return name.removesuffix(".context.jsonl") in stems
        folder, _, file = name.rpartition("/")
        return name in results or not folder or (file == "machine.json" and folder in machines)

    return pack(member for member in members if stays(member[0]))


def _is_result(name: str) -> bool:
    folder, _, file = name.rpartition("/")
    return bool(folder) and file.endswith(".json") and file != "machine.json"

"""The result files of asv that lie below a folder, each with the context file that belongs to it."""

import hashlib
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from warpwatch.dashboard.importers.asv_folder import result_files

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

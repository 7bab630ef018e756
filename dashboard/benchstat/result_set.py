"""A result set: one run a document, from a file, a folder or a stream. Files may be gzipped."""

import gzip
import itertools
import json
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from warpwatch.dashboard.importers.asv_folder import NoResultsError, open_folder, read_benchmarks, result_files
from warpwatch.dashboard.importers.broken_file import BrokenFileError
from warpwatch.dashboard.importers.formats import UnknownFormatError, read_any
from warpwatch.dashboard.importers.given import Beside, Given
from warpwatch.dashboard.store.incoming import Listed, ResultFile

UNKNOWN_COMMIT = "0" * 40  # of results that do not say theirs

_GZIP = b"\x1f\x8b"
_BETWEEN = re.compile(rb"\}\s*\{")  # nowhere in one document but in its strings
_DECODER = json.JSONDecoder()
_GAP = re.compile(r"\s*")


class NoResultSetError(Exception):
    """What was given is no result set; the message says what was seen and what was wanted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultSet:
    """Runs that count as repetitions of one thing."""

    name: str  # as it was given
    runs: tuple[ResultFile, ...]
    listed: Mapping[str, Listed]  # benchmarks.json, where one lies beside the runs
    problems: tuple[str, ...]  # what was left out, and why


def read_result_set(given: str, stdin: BinaryIO) -> ResultSet:
    """The set at a path, `-` for stdin: a result file, a folder of them, or an asv project.

    Of a folder, each file is a run; `PATH@abc123` takes only those of that commit. A file or stream may hold several
    documents, one after another, each of them a run. Raises NoResultSetError.
    """
    if given == "-":
        return _set(given, list(_documents(stdin.read(), "stdin", _no_files)), {}, ())
    path, commit = Path(given), ""
    if not path.exists() and "@" in given:
        before, _, commit = given.rpartition("@")
        path, commit = Path(before), commit.lower()
    if not path.exists():
        raise NoResultSetError(f"{given} does not exist; wanted a result file, a folder of them, or - for stdin")
    if path.is_file() and path.name != "asv.conf.json":
        listed, problems = _listed_beside(path.parent)
        runs = list(_documents(_content(path), str(path), _files_of(path.parent)))
    else:
        files, listed, problems = _folder(path)
        named = [file for file in files if commit and file.name.startswith(commit[:8])]  # as asv calls its files
        runs, unread = _runs(named or files)
        problems = (*problems, *unread)
    chosen = [run for run in runs if run.commit.startswith(commit)]
    if runs and not chosen:
        held = ", ".join(sorted({run.commit[:8] for run in runs})[:10])
        raise NoResultSetError(f"{path} has no results of commit {commit}; it has {held}")
    return _set(given, chosen, listed, problems)


def _set(name: str, runs: Sequence[ResultFile], listed: Mapping[str, Listed], problems: tuple[str, ...]) -> ResultSet:
    if not runs:
        raise NoResultSetError("; ".join([f"{name} holds no results", *problems]))
    left_out = tuple(f"{name}: {problem}" for run in runs for problem in run.problems)
    return ResultSet(name=name, runs=tuple(runs), listed=listed, problems=(*problems, *left_out))


def _runs(files: Sequence[Path]) -> tuple[list[ResultFile], list[str]]:
    """The runs in a folder's files, and what is wrong with those that cannot be read."""
    runs: list[ResultFile] = []
    problems = []
    for file in files:
        try:
            runs += list(_documents(_content(file), file.name, _files_of(file.parent)))
        except NoResultSetError as error:
            problems.append(str(error))
    return runs, problems


def _folder(path: Path) -> tuple[Sequence[Path], Mapping[str, Listed], tuple[str, ...]]:
    """The files of one machine's folder, or of all machines of a results folder."""
    here = [*result_files(path), *sorted(path.glob("*.json.gz"))] if path.is_dir() else []
    own = [file for file in here if file.name not in {"benchmarks.json", "asv.conf.json"}]
    if own:
        return own, *_listed_beside(path)
    try:
        folder = open_folder(path)
    except NoResultsError as error:
        raise NoResultSetError(str(error)) from error
    files = [file for machine in folder.machines() for file in machine.files]
    return files, folder.listed or {}, folder.problems


def _listed_beside(folder: Path) -> tuple[Mapping[str, Listed], tuple[str, ...]]:
    """asv's list of benchmarks: in the folder, or in the one above it as in asv's results."""
    for place in (folder, folder.resolve().parent):
        if (place / "benchmarks.json").is_file():
            listed, problems = read_benchmarks(place / "benchmarks.json")
            return listed or {}, problems
    return {}, ()


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise NoResultSetError(f"cannot read {path}: {error.strerror}") from error


def _documents(content: bytes, name: str, beside: Beside) -> Iterator[ResultFile]:
    """The documents of a file or stream, each read as a result of whichever format it has."""
    if content.startswith(_GZIP):
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError, zlib.error) as error:
            raise NoResultSetError(f"{name} is a broken gzip file: {error}") from error
    for number, document in enumerate(_split(content, name), start=1):
        try:
            yield from _read(document, Path(name).name.removesuffix(".gz"), beside)
        except BrokenFileError as error:
            which = f"document {number} of {name}" if number > 1 else name
            raise NoResultSetError(f"cannot read {which}: {error}") from error


def _read(document: bytes, name: str, beside: Beside) -> tuple[ResultFile, ...]:
    """Whose commit or machine a document does not say does not matter here: they are unknown then."""
    for commit, machine in itertools.product((None, UNKNOWN_COMMIT), (None, "unknown")):
        given = Given(commit=commit, machine=machine, date_ms=0 if commit else None)
        try:
            return read_any(document, name, given, beside)
        except BrokenFileError as error:
            if (commit and machine) or isinstance(error, UnknownFormatError):
                raise
    raise AssertionError("the last attempt returned or raised")


def _split(content: bytes, name: str) -> Iterator[bytes]:
    """Concatenated JSON documents, apart."""
    if not _BETWEEN.search(content):
        if content.strip():
            yield content
        return
    try:
        text = content.decode().strip()
        start = 0
        while start < len(text):
            _, end = _DECODER.raw_decode(text, start)
            yield text[start:end].encode()
            gap = _GAP.match(text, end)
            start = gap.end() if gap else end
    except (ValueError, RecursionError) as error:
        raise NoResultSetError(f"cannot read {name}: not JSON: {error}") from error


def _files_of(folder: Path) -> Beside:
    """NVBench keeps samples in files beside its JSON."""
    return lambda name: (folder / name).read_bytes() if (folder / name).is_file() else None


def _no_files(_name: str) -> None:
    return None

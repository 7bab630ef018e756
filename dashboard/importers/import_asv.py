"""Import of an asv results folder.

Many files are read by other processes, and written here, several in one transaction. A kill loses only uncommitted
files, which the next import reads again.
"""

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

from sqlalchemy.exc import DataError

from ..executors import AHEAD, in_order, isolated_worker, local_workers
from ..model.result_file import BenchmarkSpec, Context, Entry, ResultFile
from ..store.commits import mark_listed
from ..store.engine import Store
from ..store.ids import SeriesLimitError
from ..store.packed_entries import PackedEntries
from ..store.project_writer import NewFile, ProjectWriter
from .asv import read_result
from .asv_context import read_context
from .asv_folder import AsvFolder
from .import_limits import CONTEXT_FILE_BYTES, REST_REFUSED, RESULT_FILE_BYTES, Allowance
from .input_files import BeyondLimitError, BrokenFileError, read_regular
from .project_history import put_in_order

_FRESH_NS = 2_000_000_000  # a younger file may be written again without a change of its times


@dataclass(frozen=True, slots=True, kw_only=True)
class FileToRead:
    """A result file, and the digest of its imported content."""

    path: Path
    name: str  # in the project
    machine: str | None  # its folder's
    known_digest: str | None
    details: Mapping[str, str] = field(default_factory=dict)  # of the folder's machine.json


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRead:
    """A file's content; `result` is None if it was imported already, or if it is `broken`."""

    file: FileToRead
    digest: str = ""
    stamp: str | None = None
    result: ResultFile | None = None
    context: Context | None = None
    broken: str | None = None  # why it cannot be read


def read_file(file: FileToRead) -> FileRead:
    """Read a file. Errors are returned in `broken`."""
    try:
        stamp = stamp_of(file.path)
        text = read_regular(file.path, RESULT_FILE_BYTES)
        context_file = context_path(file.path)
        context_text = read_regular(context_file, CONTEXT_FILE_BYTES) if context_file.exists() else None
        digest = _digest(text, context_text)
        if digest == file.known_digest:
            return FileRead(file=file, digest=digest, stamp=stamp)
        return FileRead(
            file=file,
            digest=digest,
            stamp=stamp,
            result=read_result(text, file.path.name),
            context=read_context(context_text) if context_text is not None else None,
        )
    except MemoryError:
        return FileRead(file=file, broken="not enough memory to read it")
    except (BrokenFileError, OSError) as error:
        return FileRead(file=file, broken=str(error))
    except (AttributeError, IndexError, KeyError, OverflowError, RecursionError, TypeError, ValueError) as error:
        return FileRead(file=file, broken=f"malformed asv result: {type(error).__name__}: {error}")


def context_path(path: Path) -> Path:
    """Path of a result file's context."""
    return path.with_name(path.stem + ".context.jsonl")


def stamp_of(path: Path) -> str | None:
    """A text that changes when the file or its context is written.

    None for young files: another write may leave their times unchanged.
    """
    now, parts = time.time_ns(), []
    for each in (path, context_path(path)):
        try:
            status = each.stat()
        except FileNotFoundError:
            parts.append("")
            continue
        if max(status.st_mtime_ns, status.st_ctime_ns) > now - _FRESH_NS:
            return None
        parts.append(f"{status.st_size}-{status.st_mtime_ns}-{status.st_ctime_ns}-{status.st_ino}")
    return "|".join(parts)


def _digest(text: bytes, context: bytes | None) -> str:
    digest = hashlib.blake2b(text, digest_size=16)
    digest.update(b"\0" if context is None else b"\1" + context)
    return digest.hexdigest()


_WORTH_PROCESSES = 4_000_000  # bytes above which reading takes longer than starting processes
_AT_ONCE = 64_000_000  # approximate bytes of values and samples in one transaction
_BYTES_OF_A_POINT = 80
_READ_AHEAD = 24_000_000  # bytes each process may read ahead of the writer


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportSummary:
    """Result of an import. Files set aside are left out whole; warnings name parts left out."""

    project: str
    files: int
    unchanged: int
    points: int
    set_aside: tuple[str, ...]  # "path: reason"
    warnings: tuple[str, ...]


def import_results(
    store: Store,
    folder: AsvFolder,
    *,
    other_listed: Sequence[Mapping[str, BenchmarkSpec] | None] = (),
    allowance: Allowance | None = None,
    workers: int | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> ImportSummary:
    """Add new results of the folder to the store, then order the commits.

    `other_listed`: the benchmarks.json of further folders of the project that are imported too. `workers` processes
    read files, by default one per core; 1 starts none. `progress` is called with the files done and in all. The
    analysis is a separate step: series_analysis.py.
    """
    repository = str(folder.repository) if folder.repository else None
    allowance = allowance or Allowance()
    writer = ProjectWriter(
        store, folder.project, repository=repository, listed=folder.listed, most_series=allowance.series
    )
    batch = FileBatch(open_writer=lambda: writer, allowance=allowance, warnings=list(folder.problems))
    files = list(_files(folder, writer))
    touched = [file for file in files if not writer.is_untouched(file.name, stamp_of(file.path))]
    unchanged, restamped = len(files) - len(touched), {}
    for done, read in enumerate(_read(touched, workers)):
        progress(len(files) - len(touched) + done, len(files))
        if read.broken is None and read.result is None:
            unchanged += 1
            restamped[read.file.name] = read.stamp
            continue
        try:
            batch.add(read.file.path, [_new_file(read)])
        except BrokenFileError as error:
            batch.set_aside.append(f"{read.file.path}: {error}")
        if allowance.is_used_up:
            batch.set_aside += [f"{file.path}: {REST_REFUSED}" for file in touched[done + 1 :]]
            break
    batch.write()
    writer.restamp(restamped)
    progress(len(files), len(files))
    warnings = [*batch.warnings, *put_in_order(store, writer, commit_url=folder.commit_url)]
    listings = [each for each in (folder.listed, *other_listed) if each is not None]
    if len(listings) == 1 + len(other_listed):  # without a listing, a benchmark may still exist
        mark_listed(store, folder.project, writer.project_id, listings)
    return ImportSummary(
        project=folder.project,
        files=len(files) - len(batch.set_aside),
        unchanged=unchanged,
        points=batch.points,
        set_aside=tuple(batch.set_aside),
        warnings=tuple(warnings),
    )


def _files(folder: AsvFolder, writer: ProjectWriter) -> Iterator[FileToRead]:
    for machine in folder.machines():
        for path in machine.files:
            name = f"{folder.prefix}{machine.path.name}/{path.name}"
            yield FileToRead(
                path=path,
                name=name,
                machine=machine.machine,
                known_digest=writer.digest_of(name),
                details=machine.details,
            )


def _read(files: list[FileToRead], workers: int | None) -> Iterator[FileRead]:
    total = 0
    for file in files:
        try:
            total += file.path.stat().st_size
        except OSError:
            continue  # reading it reports the error
    ahead = max(_READ_AHEAD * len(files) // max(total, 1), AHEAD)
    done, apart = 0, False
    while done < len(files):
        try:
            with isolated_worker() if apart else local_workers(workers if total >= _WORTH_PROCESSES else 1) as readers:
                for read in in_order(readers, read_file, files[done:], ahead=ahead):
                    done += 1
                    yield read
        except BrokenExecutor:
            if apart:  # one file at a time: this file caused it
                yield FileRead(file=files[done], broken="the process that read it was killed, perhaps for its memory")
                done += 1
            apart = True


def _new_file(read: FileRead) -> NewFile:
    """Raises BrokenFileError for a file that cannot be read or names no machine."""
    if read.broken is not None or read.result is None:
        raise BrokenFileError(read.broken)
    machine = read.result.machine or read.file.machine
    if machine is None:
        raise BrokenFileError("neither it nor its folder names the machine: pack the machine's folder, not its content")
    # A result file repeats the facts of its asv version; the folder's machine.json may have more.
    result = replace(read.result, details={**read.file.details, **read.result.details})
    return NewFile(
        path=read.file.name,
        digest=read.digest,
        result=result,
        context=read.context,
        stamp=read.stamp,
        machine=machine,
    )


@dataclass(slots=True, kw_only=True)
class FileBatch:
    """Writes files in batches, one transaction each: a file is stored whole or not at all."""

    open_writer: Callable[[], ProjectWriter]
    allowance: Allowance
    points: int = 0
    set_aside: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    _waiting: list[tuple[Path, Sequence[NewFile]]] = field(default_factory=list)
    _bytes: int = 0

    def add(self, path: Path, records: Sequence[NewFile]) -> None:
        """Add the records of a file. Raises BeyondLimitError."""
        values = [_count(record.result.entries) for record in records]
        if (refusal := self.allowance.refusal(sum(count for count, _ in values))) is not None:
            raise BeyondLimitError(refusal)
        self._waiting.append((path, records))
        self._bytes += sum(_BYTES_OF_A_POINT * count + 8 * samples for count, samples in values)
        if self._bytes >= _AT_ONCE:
            self.write()

    def write(self) -> None:
        waiting, self._waiting, self._bytes = self._waiting, [], 0
        if not waiting:
            return
        try:
            self.points += self.open_writer().write_all([record for _, records in waiting for record in records])
        except (DataError, SeriesLimitError) as error:
            if len(waiting) == 1:
                self.set_aside.append(f"{waiting[0][0]}: {error.orig if isinstance(error, DataError) else error}")
                return
            for one in waiting:  # the database refuses one of them
                self._waiting = [one]
                self.write()
            return
        for path, records in waiting:
            for record in records:
                self.warnings += [f"{path}: {problem}" for problem in record.result.problems]
                if record.context is not None:
                    self.warnings += [f"{context_path(path)}: {problem}" for problem in record.context.problems]


def _count(entries: Sequence[Entry]) -> tuple[int, int]:
    """The numbers of values and of samples."""
    if isinstance(entries, PackedEntries):
        return len(entries.value), len(entries.samples)
    values = [value for entry in entries for value in entry.values]
    return len(values), sum(len(value.samples) for value in values)

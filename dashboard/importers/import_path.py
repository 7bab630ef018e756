"""`warpwatch import` of any path: a folder, a file, or an archive, in batches that are in whole or not at all."""

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from sqlalchemy.exc import DataError

from ..model.result_file import BenchmarkSpec, ResultFile
from ..store.engine import Store
from ..store.ids import SeriesLimitError
from ..store.project_writer import NewFile, ProjectWriter
from .archive import is_archive, unpack
from .asv_folder import AsvFolder, NoResultsError, open_folder, project_name, read_benchmarks
from .formats import KNOWN, read_any, refuse_if_no_json
from .git import commit_date_ms, resolve
from .import_asv import ImportSummary, import_results
from .import_limits import (
    ARCHIVE_PATH_PARTS,
    REST_REFUSED,
    RESULT_FILE_BYTES,
    SAMPLES_FILE_BYTES,
    Allowance,
    ImportLimits,
)
from .import_overrides import Beside, Given, is_full_hash
from .input_files import BeyondLimitError, BrokenFileError, read_regular
from .project_history import put_in_order
from .scratch_folder import scratch_folder

# Result files on their way into the store, some in one transaction: a file is in whole or not at all.

_VALUES_AT_ONCE = 200_000  # and samples
_FILES_AT_ONCE = 100


@dataclass(slots=True, kw_only=True)
class FileBatch:
    """Takes files as they are read, and writes some in one transaction. A project is made with its first result."""

    store: Store
    project: str
    repository: str | None
    allowance: Allowance
    writer: ProjectWriter | None = None
    points: int = 0
    set_aside: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    _waiting: list[tuple[Path, list[NewFile]]] = field(default_factory=list)
    _values: int = 0

    def open(self) -> ProjectWriter:
        """The project's writer."""
        self.writer = self.writer or ProjectWriter(
            self.store, self.project, repository=self.repository, listed=None, most_series=self.allowance.series
        )
        return self.writer

    def add(self, path: Path, name: str, digest: str, results: Sequence[ResultFile]) -> None:
        """Takes what a file holds: all of it goes in, or nothing. Raises BeyondLimitError."""
        refusal = self.allowance.refusal(sum(len(entry.values) for result in results for entry in result.entries))
        if refusal is not None:
            raise BeyondLimitError(refusal)
        new = [NewFile(path=name, digest=digest, result=r, machine=str(r.machine), context=None) for r in results]
        self._waiting.append((path, new))
        self._values += sum(1 + len(value.samples) for r in results for entry in r.entries for value in entry.values)
        if self._values >= _VALUES_AT_ONCE or len(self._waiting) >= _FILES_AT_ONCE:
            self.write()

    def write(self) -> None:
        """Writes what waits."""
        waiting, self._waiting, self._values = self._waiting, [], 0
        if not waiting:
            return
        writer = self.open()
        try:
            self.points += writer.write_all([file for _, new in waiting for file in new])
            self.warnings += [f"{path}: {p}" for path, new in waiting for file in new for p in file.result.problems]
        except (DataError, SeriesLimitError) as error:
            if len(waiting) == 1:
                self.set_aside.append(f"{waiting[0][0]}: {error.orig if isinstance(error, DataError) else error}")
                return
            for one in waiting:  # one of them holds what the database refuses: without it the others go in
                self._waiting = [one]
                self.write()


_Progress = Callable[[int, int], None]
_NOT_RESULTS = frozenset({".git", ".warpwatch"})
_CONF = ".conf.json"  # how the names of asv's configurations end


def import_path(
    store: Store,
    path: Path,
    *,
    project: str | None = None,
    repository: Path | None = None,
    given: Given | None = None,
    limits: ImportLimits | None = None,
    workers: int | None = None,
    progress: _Progress = lambda done, total: None,
) -> ImportSummary:
    """Adds to the store what is new in a results folder, a file of any known format, or an archive.

    An archive's asv.conf.json is not followed: it may name any folder as the repository. `workers` are the processes
    that read a large asv folder; with 1 none is started. Raises NoResultsError if there is nothing to import at `path`,
    and ArchiveError.
    """
    given = given or Given()
    limits = limits or ImportLimits()
    if path.is_dir() and not (path / "asv.conf.json").is_file() and not _is_asvs(path):
        name = project or project_name(path.resolve())
        allowance = _allowance(store, name, limits)
        return _import_tree(store, path, path, name, repository, given, allowance, workers, progress, None)
    if not path.is_file() or path.name.endswith(_CONF):
        folder = open_folder(path, project=project, repository=repository)
        allowance = _allowance(store, folder.project, limits)
        summary = import_results(store, folder, allowance=allowance, workers=workers, progress=progress)
        summary = _noted(summary, given)
        others = _not_asvs(folder.results)
        if not others:
            return summary
        more = _import_files(
            store, others, folder.results, folder.project, folder.repository, given, allowance, progress
        )
        return _together(folder.project, [summary, more])
    name = project or project_name(path.resolve().parent)
    allowance = _allowance(store, name, limits)
    if not is_archive(path):
        return _import_files(store, [path], path.parent, name, repository, given, allowance, progress)
    with scratch_folder() as temporary:
        inside = temporary / "archive"  # below a folder of its own, in case that it is of one machine's results
        inside.mkdir()
        left_out = [f"{path}: {line}" for line in unpack(path, inside, limits)]
        try:
            summary = _import_tree(
                store, temporary, path, name, repository, given, allowance, workers, progress, inside
            )
        except NoResultsError as error:
            also = f"; left out: {'; '.join(left_out[:3])}" if left_out else ""
            raise NoResultsError(f"{error}{also}".replace(f"{inside}/", "")) from error
        return _renamed(summary, f"{inside}/", f"{path}: ", left_out)


def _import_tree(
    store: Store,
    root: Path,
    shown: Path,
    project: str,
    repository: Path | None,
    given: Given,
    allowance: Allowance,
    workers: int | None,
    progress: _Progress,
    unpacked: Path | None,
) -> ImportSummary:
    """Everything below a folder: the asv results folders in it, and single files of other formats.

    `unpacked` is the folder below it that an archive was unpacked to, whose name says nothing.
    """
    folders, files = _find(root)
    opened = [_open_as_it_is(results, project, repository) for results in folders]
    if unpacked is not None:
        opened = [replace(folder, nameless=unpacked.resolve()) for folder in opened]
    if len(opened) > 1:  # each may have a file of the same machine, commit and environment
        below = (unpacked or root).resolve()
        opened = [replace(each, prefix=f"{each.results.relative_to(below).as_posix()}/") for each in opened]
    parts = []
    for number, folder in enumerate(opened):  # each takes what the one before has left
        beside = [other.listed for other in opened[:number] + opened[number + 1 :]]
        summary = import_results(store, folder, beside=beside, allowance=allowance, workers=workers, progress=progress)
        parts.append(_noted(summary, given))
    if files:
        parts.append(_import_files(store, files, root, project, repository, given, allowance, progress))
    summary = _together(project, parts)
    if not summary.files and not folders:
        first = f"; of {len(files)} files the first: {summary.set_aside[0]}" if files else ""
        raise NoResultsError(f"{shown} holds no result of {KNOWN} that could be read{first}")
    return summary


def _open_as_it_is(results: Path, project: str, repository: Path | None) -> AsvFolder:
    """Not as open_folder does, which follows an asv.conf.json: this may be of an archive of anybody's."""
    listed: Mapping[str, BenchmarkSpec] | None = None
    problems: tuple[str, ...] = ()
    if (results / "benchmarks.json").is_file():
        listed, problems = read_benchmarks(results / "benchmarks.json")
    return AsvFolder(
        results=results.resolve(), project=project, repository=repository, listed=listed, problems=problems
    )


def _together(project: str, parts: Sequence[ImportSummary]) -> ImportSummary:
    return ImportSummary(
        project=project,
        files=sum(part.files for part in parts),
        unchanged=sum(part.unchanged for part in parts),
        points=sum(part.points for part in parts),
        set_aside=tuple(line for part in parts for line in part.set_aside),
        warnings=tuple(line for part in parts for line in part.warnings),
    )


def _find(root: Path) -> tuple[list[Path], list[Path]]:
    """asv results folders below a folder, and all files that are neither asv's nor a result's samples."""
    folders, files = [], []
    for place, inside, names in os.walk(root):
        here = Path(place)
        if _is_asvs(here):
            folders.append(here)
            files += _not_asvs(here)
            inside.clear()
            continue
        inside[:] = sorted(name for name in inside if name not in _NOT_RESULTS and not _holds_samples(name, names))
        if len(here.relative_to(root).parts) >= ARCHIVE_PATH_PARTS:
            inside.clear()  # results lie higher
        files += [here / name for name in sorted(names) if (here / name).is_file()]
    return folders, files


def _not_asvs(results: Path) -> list[Path]:
    """The JSON files in a results folder of asv that asv does not put there."""
    return [
        path
        for path in sorted(results.glob("*.json"))
        if path.is_file() and path.name not in {"benchmarks.json", "machine.json"} and not path.name.endswith(_CONF)
    ]


def _is_asvs(folder: Path) -> bool:
    """Whether it is a results folder of asv: it lists benchmarks, or holds folders of machines or of their results."""
    if (folder / "benchmarks.json").is_file():
        return True
    return any(path.name == "machine.json" or _names_commit(path) for path in folder.glob("*/*.json") if path.is_file())


def _names_commit(path: Path) -> bool:
    """Whether a file begins like asv's results, which name the commit first."""
    with path.open("rb") as file:
        return b'"commit_hash"' in file.read(4096)


def _holds_samples(folder: str, beside: Iterable[str]) -> bool:
    """Whether it is what NVBench's --jsonbin writes beside `report.json`: report.json-bin, report.json-freqs-bin."""
    return folder.endswith("-bin") and any(folder.startswith(f"{name}-") for name in beside)


def _import_files(
    store: Store,
    files: Sequence[Path],
    root: Path,
    project: str,
    repository: Path | None,
    given: Given,
    allowance: Allowance,
    progress: _Progress,
) -> ImportSummary:
    """Files one by one, each whole or not at all; what cannot be read is set aside."""
    from ..store import queries  # all of them, which asv's folders need not wait for

    known = queries.project(store, project)
    its_repository = str(repository.resolve()) if repository else known.repository if known else None
    given = _completed(given, its_repository)
    batch = FileBatch(store=store, project=project, repository=its_repository, allowance=allowance)
    if known:
        batch.open()
    unchanged = 0
    for done, path in enumerate(files):
        progress(done, len(files))
        if allowance.is_used_up:
            batch.set_aside.append(f"{path}: {REST_REFUSED}")
            continue
        try:
            text = _text(path)
            digest = _digest(text, given)
            name = f"{path.relative_to(root).as_posix()}#{digest[:12]}"
            if batch.writer is not None and batch.writer.has(name, digest):
                unchanged += 1
                continue
            batch.add(path, name, digest, read_any(text, path.name, given, _beside(path)))
        except (BrokenFileError, OSError, MemoryError) as error:
            batch.set_aside.append(f"{path}: {error or type(error).__name__}")
    batch.write()
    progress(len(files), len(files))
    if batch.writer is not None and len(batch.set_aside) < len(files):
        batch.warnings.extend(put_in_order(store, batch.writer))
    return ImportSummary(
        project=project,
        files=len(files) - len(batch.set_aside),
        unchanged=unchanged,
        points=batch.points,
        set_aside=tuple(batch.set_aside),
        warnings=tuple(batch.warnings),
    )


def _text(path: Path) -> bytes:
    with path.open("rb") as file:  # a regular one: the folder's others are not looked at
        refuse_if_no_json(file.read(512))
    return read_regular(path, RESULT_FILE_BYTES)


def _completed(given: Given, repository: str | None) -> Given:
    """What is given with a branch, a tag or a short hash made a full one, and its date, where a repository knows them.

    Raises NoResultsError if the commit is no full hash and no repository knows it.
    """
    if given.commit is None:
        return given
    full = resolve(Path(repository), given.commit) if repository else None
    if full is None and not is_full_hash(given.commit.lower()):
        where = f"{repository} knows no such commit" if repository else "no repository is known to look it up in"
        raise NoResultsError(f"the commit is {given.commit!r}; wanted a full hash (git rev-parse HEAD), as {where}")
    commit = full or given.commit.lower()
    known = commit_date_ms(Path(repository), commit) if repository and given.date_ms is None else None
    return replace(given, commit=commit, date_ms=given.date_ms if known is None else known)


def _beside(path: Path) -> Beside:
    def read(name: str) -> bytes | None:
        folder, _, file = name.partition("/")
        found = path.parent / folder / file
        if not _holds_samples(folder, [path.name]) or "/" in file or not found.is_file():
            return None
        try:
            return read_regular(found, SAMPLES_FILE_BYTES)
        except OSError:
            return None

    return read


def _allowance(store: Store, project: str, limits: ImportLimits) -> Allowance:
    """What an import may add to the project as it is now."""
    series = None
    if limits.new_series is not None and limits.project_series is not None:
        from ..store import queries

        known = queries.project(store, project)
        series = min((known.series if known else 0) + limits.new_series, limits.project_series)
    return Allowance(values=limits.values, series=series)


def _noted(summary: ImportSummary, given: Given) -> ImportSummary:
    if given == Given():
        return summary
    return replace(
        summary, warnings=(*summary.warnings, "asv's results name commit, date and machine themselves: those count")
    )


def _renamed(summary: ImportSummary, before: str, after: str, left_out: Sequence[str]) -> ImportSummary:
    """The same, speaking of an archive's members instead of files in a temporary folder."""

    def rename(lines: Iterable[str]) -> Iterator[str]:
        return (line.replace(before, after) for line in lines)

    set_aside = (*rename(summary.set_aside), *left_out)
    return replace(summary, set_aside=set_aside, warnings=tuple(rename(summary.warnings)))


def _digest(text: bytes, given: Given) -> str:
    """Of the content and of what was given: the same file may be told to be another commit's."""
    digest = hashlib.blake2b(text, digest_size=16)
    digest.update(repr(given).encode())
    return digest.hexdigest()

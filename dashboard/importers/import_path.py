"""Import of any path: a folder, a file, or an archive."""

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from ..model.result_file import BenchmarkSpec
from ..store.engine import Store
from ..store.project_writer import NewFile, ProjectWriter
from .archive import is_archive, unpack
from .asv_folder import AsvFolder, NoResultsError, open_folder, project_name, read_benchmarks
from .formats import KNOWN, read_any, refuse_if_no_json
from .git import commit_date_ms, resolve
from .import_asv import FileBatch, ImportSummary, import_results
from .import_limits import (
    ARCHIVE_PATH_PARTS,
    REST_REFUSED,
    RESULT_FILE_BYTES,
    SAMPLES_FILE_BYTES,
    Allowance,
    ImportLimits,
)
from .input_files import (
    BrokenFileError,
    ImportOverrides,
    ReadSibling,
    is_full_hash,
    read_regular,
    scratch_folder,
)
from .project_history import put_in_order

_Progress = Callable[[int, int], None]
_SKIPPED_FOLDERS = frozenset({".git", ".warpwatch"})
_CONF = ".conf.json"  # suffix of asv's configurations


def import_path(
    store: Store,
    path: Path,
    *,
    project: str | None = None,
    repository: Path | None = None,
    overrides: ImportOverrides | None = None,
    limits: ImportLimits | None = None,
    workers: int | None = None,
    progress: _Progress = lambda done, total: None,
) -> ImportSummary:
    """Add new results of a results folder, a file of any known format, or an archive to the store.

    An archive's asv.conf.json is ignored: it may name any folder as the repository. `workers` processes read a large
    asv folder; 1 starts none. Raises NoResultsError if `path` has nothing to import, and ArchiveError.
    """
    overrides = overrides or ImportOverrides()
    limits = limits or ImportLimits()
    if path.is_dir() and not (path / "asv.conf.json").is_file() and not _is_asv_folder(path):
        name = project or project_name(path.resolve())
        allowance = _allowance(store, name, limits)
        return _import_tree(store, path, path, name, repository, overrides, allowance, workers, progress, None)
    if not path.is_file() or path.name.endswith(_CONF):
        folder = open_folder(path, project=project, repository=repository)
        allowance = _allowance(store, folder.project, limits)
        summary = import_results(store, folder, allowance=allowance, workers=workers, progress=progress)
        summary = _warn_of_overrides(summary, overrides)
        others = _other_json_files(folder.results)
        if not others:
            return summary
        more = _import_files(
            store, others, folder.results, folder.project, folder.repository, overrides, allowance, progress
        )
        return _sum(folder.project, [summary, more])
    name = project or project_name(path.resolve().parent)
    allowance = _allowance(store, name, limits)
    if not is_archive(path):
        return _import_files(store, [path], path.parent, name, repository, overrides, allowance, progress)
    with scratch_folder() as temporary:
        inside = temporary / "archive"  # a folder of its own, because it may be the folder of one machine
        inside.mkdir()
        left_out = [f"{path}: {line}" for line in unpack(path, inside, limits)]
        try:
            summary = _import_tree(
                store, temporary, path, name, repository, overrides, allowance, workers, progress, inside
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
    overrides: ImportOverrides,
    allowance: Allowance,
    workers: int | None,
    progress: _Progress,
    unpacked: Path | None,
) -> ImportSummary:
    """Import all asv results folders below a folder, and single files of other formats.

    `unpacked`: the folder below it that an archive was unpacked to, whose name is not a machine's.
    """
    folders, files = _find(root)
    opened = [_open_untrusted(results, project, repository) for results in folders]
    if unpacked is not None:
        opened = [replace(folder, nameless=unpacked.resolve()) for folder in opened]
    if len(opened) > 1:  # each may have a file of the same machine, commit and environment
        below = (unpacked or root).resolve()
        opened = [replace(each, prefix=f"{each.results.relative_to(below).as_posix()}/") for each in opened]
    parts = []
    for number, folder in enumerate(opened):  # all share the allowance
        others = [other.listed for other in opened[:number] + opened[number + 1 :]]
        summary = import_results(
            store, folder, other_listed=others, allowance=allowance, workers=workers, progress=progress
        )
        parts.append(_warn_of_overrides(summary, overrides))
    if files:
        parts.append(_import_files(store, files, root, project, repository, overrides, allowance, progress))
    summary = _sum(project, parts)
    if not summary.files and not folders:
        first = f"; the first of {len(files)} files: {summary.set_aside[0]}" if files else ""
        raise NoResultsError(f"{shown} has no readable result of {KNOWN}{first}")
    return summary


def _open_untrusted(results: Path, project: str, repository: Path | None) -> AsvFolder:
    """Open a folder without its asv.conf.json, which open_folder follows: the archive is untrusted."""
    listed: Mapping[str, BenchmarkSpec] | None = None
    problems: tuple[str, ...] = ()
    if (results / "benchmarks.json").is_file():
        listed, problems = read_benchmarks(results / "benchmarks.json")
    return AsvFolder(
        results=results.resolve(), project=project, repository=repository, listed=listed, problems=problems
    )


def _sum(project: str, parts: Sequence[ImportSummary]) -> ImportSummary:
    return ImportSummary(
        project=project,
        files=sum(part.files for part in parts),
        unchanged=sum(part.unchanged for part in parts),
        points=sum(part.points for part in parts),
        set_aside=tuple(line for part in parts for line in part.set_aside),
        warnings=tuple(line for part in parts for line in part.warnings),
    )


def _find(root: Path) -> tuple[list[Path], list[Path]]:
    """asv results folders below a folder, and the other files, without those of samples."""
    folders, files = [], []
    for folder, inside, names in os.walk(root):
        here = Path(folder)
        if _is_asv_folder(here):
            folders.append(here)
            files += _other_json_files(here)
            inside.clear()
            continue
        inside[:] = sorted(
            name for name in inside if name not in _SKIPPED_FOLDERS and not _is_samples_folder(name, names)
        )
        if len(here.relative_to(root).parts) >= ARCHIVE_PATH_PARTS:
            inside.clear()  # too deep for results
        files += [here / name for name in sorted(names) if (here / name).is_file()]
    return folders, files


def _other_json_files(results: Path) -> list[Path]:
    """JSON files in an asv results folder that are not asv's."""
    return [
        path
        for path in sorted(results.glob("*.json"))
        if path.is_file() and path.name not in {"benchmarks.json", "machine.json"} and not path.name.endswith(_CONF)
    ]


def _is_asv_folder(folder: Path) -> bool:
    """Whether the folder has asv's benchmarks.json, or sub-folders with a machine.json or asv results."""
    if (folder / "benchmarks.json").is_file():
        return True
    return any(path.name == "machine.json" or _names_commit(path) for path in folder.glob("*/*.json") if path.is_file())


def _names_commit(path: Path) -> bool:
    """Whether the file begins like an asv result, which names the commit first."""
    with path.open("rb") as file:
        return b'"commit_hash"' in file.read(4096)


def _is_samples_folder(folder: str, files: Iterable[str]) -> bool:
    """Whether NVBench's --jsonbin made the folder for one of the files: report.json-bin, report.json-freqs-bin."""
    return folder.endswith("-bin") and any(folder.startswith(f"{name}-") for name in files)


def _import_files(
    store: Store,
    files: Sequence[Path],
    root: Path,
    project: str,
    repository: Path | None,
    overrides: ImportOverrides,
    allowance: Allowance,
    progress: _Progress,
) -> ImportSummary:
    """Import single files; unreadable ones are set aside."""
    from ..store import queries  # slow to import, and not needed for asv's folders

    known = queries.project(store, project)
    repository_path = str(repository.resolve()) if repository else known.repository if known else None
    overrides = _completed(overrides, repository_path)

    @cache
    def writer() -> ProjectWriter:  # creates the project, so it is called with the first result
        return ProjectWriter(store, project, repository=repository_path, listed=None, most_series=allowance.series)

    batch = FileBatch(open_writer=writer, allowance=allowance)
    unchanged = 0
    for done, path in enumerate(files):
        progress(done, len(files))
        if allowance.is_used_up:
            batch.set_aside.append(f"{path}: {REST_REFUSED}")
            continue
        try:
            text = _text(path)
            digest = _digest(text, overrides)
            name = f"{path.relative_to(root).as_posix()}#{digest[:12]}"
            if known and writer().has(name, digest):
                unchanged += 1
                continue
            results = read_any(text, path.name, overrides, _sibling_reader(path))
            batch.add(
                path,
                [NewFile(path=name, digest=digest, result=r, machine=str(r.machine), context=None) for r in results],
            )
        except (BrokenFileError, OSError, MemoryError) as error:
            batch.set_aside.append(f"{path}: {error or type(error).__name__}")
    batch.write()
    progress(len(files), len(files))
    if len(batch.set_aside) < len(files):
        batch.warnings.extend(put_in_order(store, writer()))
    return ImportSummary(
        project=project,
        files=len(files) - len(batch.set_aside),
        unchanged=unchanged,
        points=batch.points,
        set_aside=tuple(batch.set_aside),
        warnings=tuple(batch.warnings),
    )


def _text(path: Path) -> bytes:
    with path.open("rb") as file:
        refuse_if_no_json(file.read(512))
    return read_regular(path, RESULT_FILE_BYTES)


def _completed(overrides: ImportOverrides, repository: str | None) -> ImportOverrides:
    """The overrides with the full hash of a branch, tag or short hash, and the commit's date, both from the repository.

    Raises NoResultsError if the commit is not a full hash and no repository has it.
    """
    if overrides.commit is None:
        return overrides
    full = resolve(Path(repository), overrides.commit) if repository else None
    if full is None and not is_full_hash(overrides.commit.lower()):
        why = f"{repository} has no such commit" if repository else "the project has no repository to look it up in"
        raise NoResultsError(
            f"the commit is {overrides.commit!r}; expected a full hash (git rev-parse HEAD), because {why}"
        )
    commit = full or overrides.commit.lower()
    date_ms = overrides.date_ms
    if repository and date_ms is None:
        date_ms = commit_date_ms(Path(repository), commit)
    return replace(overrides, commit=commit, date_ms=date_ms)


def _sibling_reader(path: Path) -> ReadSibling:
    def read(name: str) -> bytes | None:
        folder, _, file = name.partition("/")
        sibling = path.parent / folder / file
        if not _is_samples_folder(folder, [path.name]) or "/" in file or not sibling.is_file():
            return None
        try:
            return read_regular(sibling, SAMPLES_FILE_BYTES)
        except OSError:
            return None

    return read


def _allowance(store: Store, project: str, limits: ImportLimits) -> Allowance:
    """What the import may add to the project."""
    series = None
    if limits.new_series is not None and limits.project_series is not None:
        from ..store import queries

        known = queries.project(store, project)
        series = min((known.series if known else 0) + limits.new_series, limits.project_series)
    return Allowance(values=limits.values, series=series)


def _warn_of_overrides(summary: ImportSummary, overrides: ImportOverrides) -> ImportSummary:
    if overrides == ImportOverrides():
        return summary
    return replace(
        summary, warnings=(*summary.warnings, "asv's results name commit, date and machine: the given ones are ignored")
    )


def _renamed(summary: ImportSummary, before: str, after: str, left_out: Sequence[str]) -> ImportSummary:
    """The summary with the names of an archive's members in place of temporary files."""

    def rename(lines: Iterable[str]) -> Iterator[str]:
        return (line.replace(before, after) for line in lines)

    set_aside = (*rename(summary.set_aside), *left_out)
    return replace(summary, set_aside=set_aside, warnings=tuple(rename(summary.warnings)))


def _digest(text: bytes, overrides: ImportOverrides) -> str:
    """Digest of content and overrides: the same file may be imported for several commits."""
    digest = hashlib.blake2b(text, digest_size=16)
    digest.update(repr(overrides).encode())
    return digest.hexdigest()

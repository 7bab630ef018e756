"""`warpwatch import`: an asv results folder into the store, a file at a time, so that a kill loses nothing."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy.exc import DataError

from warpwatch.dashboard.importers.asv_folder import AsvFolder, result_files
from warpwatch.dashboard.importers.asv_result import BrokenFileError, read_result
from warpwatch.dashboard.importers.commit_order import put_in_order
from warpwatch.dashboard.importers.context_file import read_context
from warpwatch.dashboard.store.ordering import mark_listed
from warpwatch.dashboard.store.store import Store
from warpwatch.dashboard.store.writing import ProjectWriter


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportSummary:
    """What an import did. Files set aside are left out whole; warnings name parts that were left out."""

    project: str
    files: int
    unchanged: int
    points: int
    set_aside: tuple[str, ...]  # "path: reason"
    warnings: tuple[str, ...]


def import_results(
    store: Store, folder: AsvFolder, *, progress: Callable[[int, int], None] = lambda done, total: None
) -> ImportSummary:
    """Adds to the store what is new in the folder, then puts the commits in order.

    `progress` is told how many files of how many are done. The analysis is a step of its own: see analysis.py.
    """
    repository = str(folder.repository) if folder.repository else None
    writer = ProjectWriter(store, folder.project, repository=repository, listed=folder.listed)
    todo = [(machine, path) for machine in folder.machines() for path in result_files(machine.path)]
    unchanged = points = 0
    set_aside: list[str] = []
    warnings = list(folder.problems)
    for done, (machine, path) in enumerate(todo):
        progress(done, len(todo))
        name = path.relative_to(folder.results).as_posix()
        try:
            text = path.read_bytes()
            context_text = _context_beside(path)
            digest = _digest(text, context_text)
            if writer.has(name, digest):
                unchanged += 1
                continue
            result = read_result(text, path.name)
            context = read_context(context_text) if context_text is not None else None
            points += writer.write(name, digest, result, result.machine or machine.machine, context)
        except (BrokenFileError, DataError, OSError) as error:
            said = error.orig if isinstance(error, DataError) else error
            set_aside.append(f"{path}: {said}")
            continue
        warnings.extend(f"{path}: {problem}" for problem in result.problems)
        warnings.extend(f"{_context_path(path)}: {problem}" for problem in (context.problems if context else ()))
    progress(len(todo), len(todo))
    warnings.extend(put_in_order(store, writer))
    if folder.listed is not None:
        mark_listed(store, folder.project, writer.project_id, folder.listed)
    return ImportSummary(
        project=folder.project,
        files=len(todo) - len(set_aside),
        unchanged=unchanged,
        points=points,
        set_aside=tuple(set_aside),
        warnings=tuple(warnings),
    )


def _context_path(path: Path) -> Path:
    return path.with_name(path.stem + ".context.jsonl")


def _context_beside(path: Path) -> bytes | None:
    try:
        return _context_path(path).read_bytes()
    except FileNotFoundError:
        return None


def _digest(text: bytes, context: bytes | None) -> str:
    digest = hashlib.blake2b(text, digest_size=16)
    digest.update(b"\0" if context is None else b"\1" + context)
    return digest.hexdigest()

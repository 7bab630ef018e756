"""Archives of single runs: asv overwrites a commit's result file with each run, so a run is archived before the next.

They lie beside the results, where asv does not look, so that any push of the folder sends them:

    .asv/results/.runs/0000000003-5874c1fb….tar.zst    oldest first; the name has a SHA-256 of the content
"""

import hashlib
import time
from collections.abc import Iterator
from pathlib import Path

from .batch import Result, find_results, listing_files, load_result, pack
from .queue import write_atomically

_FOLDER, _SUFFIX = ".runs", ".tar.zst"
_DIGITS = 10
_KEPT_DAYS = 30  # so long may a push be away


class ArchiveError(Exception):
    """A run cannot be archived; the message names the file."""


def archive_run(results: Path, commit: str) -> None:
    """Archives the result files of a commit (full hash) as they are now, if there are any. Raises ArchiveError."""
    try:
        _archive(results, commit)
    except OSError as error:
        raise ArchiveError(
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

"""Where context lines wait until asv saves the results they belong to.

asv passes a benchmark process neither the machine nor the result file, and decides only at the end whether it
saves at all. So a run's lines go to a file of their own, in a folder of this one asv command, and asv.py
moves them next to the result file when asv writes it. No torch here.
"""

import contextlib
import fcntl
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from .records import Record, to_line

FOLDER_VARIABLE = "WARPBENCH_SPOOL"  # set by asv.py for the processes that asv starts


class Spool:
    """The lines of one run, on disk as soon as they are known; nowhere if asv did not start us."""

    def __init__(self, run: str) -> None:
        folder = os.environ.get(FOLDER_VARIABLE)
        self._path = Path(folder) / f"{run}.jsonl" if folder else None

    def append(self, *records: Record) -> None:
        """Write records after those already there."""
        if self._path is None:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a") as file:
            file.writelines(to_line(record) + "\n" for record in records)


def move(folder: Path, target: Path, *, commit: str, environment: str) -> None:
    """Append the runs waiting in `folder` that belong to this commit and environment to `target`.

    A run that names another commit or environment stays; one that names none was measured for this one. The
    target is replaced in one step and a run that is in it already is not added again, so that being killed
    anywhere loses nothing and doubles nothing. One process at a time does so in the target's folder.
    """
    with _locked(target.parent):
        _move(folder, target, commit, environment)


def _move(folder: Path, target: Path, commit: str, environment: str) -> None:
    for path in sorted(folder.glob("*.jsonl"), key=lambda path: path.stat().st_mtime_ns):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        if not all(_belongs(line, commit, environment) for line in lines):
            continue
        for line in lines:
            if line["record"] == "run":
                line.update(commit=commit, environment=environment)
        kept = target.read_text().splitlines() if target.exists() else []
        runs = {line["run"] for line in lines}
        kept = [line for line in kept if json.loads(line)["run"] not in runs]
        _replace(target, [*kept, *(json.dumps(line) for line in lines)])
        path.unlink()


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)  # gives the lock back


def _belongs(line: dict[str, object], commit: str, environment: str) -> bool:
    if line["record"] != "run":
        return True
    return line["commit"] in ("", commit) and line["environment"] in ("", environment)


def _replace(target: Path, lines: list[str]) -> None:
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=".context-")
    with os.fdopen(handle, "w") as file:
        file.writelines(line + "\n" for line in lines)
    Path(name).chmod(0o644)
    Path(name).replace(target)

"""asv's name of this machine, and warnings about uncommitted changes."""

import json
import platform
from collections.abc import Sequence
from pathlib import Path

from warpwatch.dashboard.importers.git import GitError, root_of, uncommitted_files


def asv_machine(arguments: Sequence[str] = ()) -> str | None:
    """asv's name of this machine: from `--machine`, else from ~/.asv-machine.json, as asv does; None without one."""
    for index, word in enumerate(arguments):
        if word == "--machine" and index + 1 < len(arguments):
            return arguments[index + 1]
        if word.startswith("--machine="):
            return word.partition("=")[2]
    try:
        known = json.loads((Path.home() / ".asv-machine.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    names = [name for name, facts in known.items() if isinstance(facts, dict)] if isinstance(known, dict) else []
    host = platform.uname().node
    chosen = host if host in names else names[0] if len(names) == 1 else None
    return str(known[chosen].get("machine", chosen)) if chosen is not None else None


_SHOWN = 5  # files named in a warning


def uncommitted_warnings(repository: Path, benchmarks: Path) -> tuple[str, ...]:
    """A warning about uncommitted code, which is not measured, and one about uncommitted benchmarks, which are used.

    asv builds commits, but runs the benchmarks of the working tree.
    """
    root = root_of(repository)
    if root is None:
        return ()
    try:
        changed = uncommitted_files(root)
    except GitError:  # a bare repository has no working tree
        return ()
    of_benchmarks = [name for name in changed if _is_benchmark((root / name).resolve(), benchmarks.resolve())]
    others = [name for name, is_tracked in changed.items() if is_tracked and name not in of_benchmarks]
    warnings = []
    if others:
        warnings.append(f"Warning: uncommitted changes are not measured, only commits are: {_names(others)}")
    if of_benchmarks:
        warnings.append(
            "Warning: uncommitted benchmarks are used for all commits, as asv takes them from the working tree: "
            + _names(of_benchmarks)
        )
    return tuple(warnings)


def _is_benchmark(path: Path, folder: Path) -> bool:
    if "__pycache__" in path.parts:
        return False
    return path.is_relative_to(folder) or folder.is_relative_to(path)  # git names an untracked folder, not its files


def _names(files: list[str]) -> str:
    more = len(files) - _SHOWN
    return ", ".join(files[:_SHOWN]) + (f" and {more} more" if more > 0 else "")

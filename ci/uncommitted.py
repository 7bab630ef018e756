"""A warning before commits are measured in a checkout that differs from them."""

from pathlib import Path

from warpwatch.dashboard.importers.git_history import GitError, root_of, uncommitted_files

_SHOWN = 5  # files by name


def uncommitted_warnings(repository: Path, benchmarks: Path) -> tuple[str, ...]:
    """One sentence about code whose uncommitted changes are not measured, one about benchmarks whose changes are.

    asv builds commits, but takes the folder of the benchmarks from the working tree.
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

"""The project's benchmark directory as an importable package, without its parent folder on sys.path.

The parent folder holds the project's own sources, which would hide what is installed. asv imports the benchmark
directory in the same way.
"""

import importlib.machinery
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

_VARIABLE = "WARPBENCH_BENCHMARKS"  # the folder, for the processes that this one starts


class _Finder:
    """Finds one package in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The package itself; what is inside it Python finds by itself."""
        if name != self.folder.name:
            return None
        return importlib.machinery.PathFinder.find_spec(name, [str(self.folder.parent)], target)


def use(folder: Path) -> str:
    """Make the benchmark directory importable here and in child processes; its package's name.

    Raises FileNotFoundError if it is no package.
    """
    folder = folder.resolve()
    if not (folder / "__init__.py").is_file():
        raise FileNotFoundError(f"{folder} is no benchmark directory: it has no __init__.py")
    if not any(isinstance(finder, _Finder) and finder.folder == folder for finder in sys.meta_path):
        sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, _Finder)]
        sys.meta_path.insert(0, _Finder(folder))
    os.environ[_VARIABLE] = str(folder)
    return folder.name


def in_use() -> Path | None:
    """The benchmark directory of this process."""
    folder = os.environ.get(_VARIABLE)
    return Path(folder) if folder else None


def use_inherited() -> None:
    """The benchmark directory of the process that started this one, if it had any."""
    folder = in_use()
    if folder is not None:
        use(folder)


def use_that_of(module: str) -> None:
    """The benchmark directory that a module was imported from, unless this process has inherited one."""
    if in_use() is not None:
        return
    package = sys.modules.get(module.partition(".")[0])
    paths = list(getattr(package, "__path__", ()))
    if paths and (Path(paths[0]) / "__init__.py").is_file():
        use(Path(paths[0]))

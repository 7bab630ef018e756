"""The file of a project's CUDA extension, as installed or built. No torch here."""

import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path


class NoLibraryError(Exception):
    """There is no such file; the message names where it was looked for, and the fix."""


def find_library(library: str) -> Path:
    """The file of "package/_C*.so", a path with wildcards below an installed package or a folder of sys.path.

    An absolute path stands for itself; anything else has to lie in asv's environment where asv runs this process, since
    the file of another commit may be installed outside. Of several files the newest. Raises NoLibraryError.
    """
    found = [file for folder, pattern in _places(library) for file in folder.glob(pattern) if file.is_file()]
    environment = os.environ.get("ASV_ENV_DIR")
    if environment and not Path(library).is_absolute():
        elsewhere, found = found, [file for file in found if _is_below(file, Path(environment))]
        if elsewhere and not found:
            raise NoLibraryError(
                f"library {library!r} is found as {elsewhere[0]}, which is not in asv's environment {environment}: "
                "this commit does not build or install it"
            )
    if not found:
        raise NoLibraryError(
            f"library {library!r} is not found: there is no such file below an installed package "
            f"{Path(library).parts[0]!r} or a folder of sys.path; build the project, or correct library= to the "
            'path of the built file, such as "package/_C*.so"'
        )
    return max(found, key=lambda file: file.stat().st_mtime_ns)


def _places(library: str) -> Iterator[tuple[Path, str]]:
    path = Path(library)
    if path.is_absolute():
        yield Path(path.anchor), str(path.relative_to(path.anchor))
        return
    package, *rest = path.parts
    spec = importlib.util.find_spec(package) if package.isidentifier() and rest else None
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        yield Path(folder), str(Path(*rest))
    for folder in sys.path:
        yield Path(folder), library


def _is_below(file: Path, folder: Path) -> bool:
    return file.resolve().is_relative_to(folder.resolve())

"""One hash of the project's code that an implementation runs: `python -m warpbench.code_digest CAPABILITY PAIR...`.

A pair is "source operator implementation". Equal hashes of two commits mean that they run the same code.
"""

import ast
import hashlib
import importlib.util
import inspect
import json
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType

from .python_code import python_code_sha256

_COMPILED = ("*.so", "*.pyd", "*.cubin", "*.fatbin")


def digest_of_imports(method: FunctionType, library: Path | None = None) -> str | None:
    """sha256 of what a method's import statements lead to within the packages that they name, or None.

    Python modules count as code, without comments and docstrings; compiled files of the packages and `library` count as
    bytes. None where the method imports nothing and names no library: then what it calls is not known.
    """
    parts = [f"library {hashlib.sha256(library.read_bytes()).hexdigest()}"] if library else []
    for name in sorted(set(_imported_names(method))):
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
            return None
        package = importlib.util.find_spec(name.partition(".")[0])
        folders = list(package.submodule_search_locations or ()) if package else []
        folder = Path(folders[0]) if folders else Path(spec.origin).parent
        parts.append(f"{name} {python_code_sha256(Path(spec.origin), folder)}")
        compiled = sorted(path for pattern in _COMPILED for path in folder.rglob(pattern))
        parts += [f"{path.relative_to(folder)} {hashlib.sha256(path.read_bytes()).hexdigest()}" for path in compiled]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest() if parts else None


def _imported_names(method: FunctionType) -> Iterator[str]:
    """Modules that the method's own statements import, torch's and the standard library's left out."""
    for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(method)))):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names = [node.module]
        yield from (name for name in names if name.partition(".")[0] not in {"torch", *sys.stdlib_module_names})


def main() -> None:
    """Print the digests as JSON."""
    from .benchmark import declared_class

    capability, *pairs = sys.argv[1:]
    found = {}
    for pair in pairs:
        source, _, implementation = pair.split(" ")
        found[pair] = declared_class(source).code_sha256(implementation, capability or None)
    print(json.dumps(found))


if __name__ == "__main__":
    main()

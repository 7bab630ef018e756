"""A hash of Python modules as code: what they do and import of one package, not how they are written."""

import ast
import hashlib
from collections.abc import Iterator
from pathlib import Path


def python_code_sha256(module: Path, package: Path) -> str:
    """Of a module and of all modules below `package` that it imports relatively, docstrings and comments left out.

    Raises FileNotFoundError if the module does not exist.
    """
    found: dict[Path, str] = {}
    waiting = [module]
    while waiting:
        path = waiting.pop()
        if path in found:
            continue
        tree = ast.parse(path.read_text())
        waiting += _imported(tree, path, package)
        _strip_docstrings(tree)
        found[path] = ast.dump(tree)
    lines = sorted(f"{path.relative_to(package)} {dump}" for path, dump in found.items())
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _imported(tree: ast.AST, importer: Path, package: Path) -> Iterator[Path]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom) or node.level == 0:
            continue
        folder = importer.parents[node.level - 1].joinpath(*(node.module or "").split("."))
        # `from .module import name`, or `from .package import module`
        candidates = [folder.with_suffix(".py"), *(folder / f"{name.name}.py" for name in node.names)]
        yield from (path for path in candidates if path.is_relative_to(package) and path.is_file())


def _strip_docstrings(tree: ast.AST) -> None:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                node.body = node.body[1:]

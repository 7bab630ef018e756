"""Where in a repository a benchmark is written: the line that a remark about it stands at."""

import ast
from functools import cache
from pathlib import Path

from pydantic import ValidationError

from warpwatch.ci.gate.artefact import Source


class BenchmarkSources:
    """Looks benchmarks of one asv project up, by the names that asv gives them."""

    def __init__(self, repository: Path, benchmarks: Path) -> None:
        """`benchmarks` is asv's benchmark_dir."""
        self._repository, self._benchmarks = repository.resolve(), benchmarks.resolve()
        self.of = cache(self._of)

    def _of(self, benchmark: str) -> Source | None:
        """File and line of the function, else of its class, else of the file; None where there is no such file."""
        names = benchmark.split(".")
        for length in range(len(names) - 1, 0, -1):
            module = self._benchmarks.joinpath(*names[:length])
            for path in (module.with_suffix(".py"), module / "__init__.py"):
                if path.is_file() and path.resolve().is_relative_to(self._repository):
                    where = path.resolve().relative_to(self._repository).as_posix()
                    try:
                        return Source(path=where, line=_line(path, names[length:]))
                    except ValidationError:
                        return None  # a name that the artefact does not take
        return None


def _line(path: Path, names: list[str]) -> int:
    try:
        inside: list[ast.stmt] = ast.parse(path.read_bytes()).body
    except (OSError, SyntaxError, ValueError):
        return 1
    line = 1
    for name in names:
        for node in inside:
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name:
                line, inside = node.lineno, node.body
                break
        else:
            break
    return line

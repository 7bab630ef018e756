"""The project in the working directory: its asv.conf.json and its benchmarks. No torch here."""

import difflib
import functools
import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from . import benchmark_root
from .benchmark import KernelBenchmark
from .catalogue import benchmark_classes
from .control import Control
from .jobs import CONTROL_BENCHMARK

_NAMES = ("asv.conf.json", "asv.conf.jsonc")


class NoProjectError(Exception):
    """There is no project here, or no such operator in it; the message names what to do."""


@dataclass(frozen=True)
class Project:
    """A folder with an asv.conf.json."""

    folder: Path
    benchmarks: Path  # the benchmark directory
    results: Path
    plugins: tuple[str, ...] = ()
    environment_type: str = ""

    @functools.cached_property
    def by_asv_name(self) -> Mapping[str, type[KernelBenchmark]]:
        """asv's name -> class, the controls among them. Raises NoProjectError where the directory is no package."""
        try:
            package = importlib.import_module(benchmark_root.use(self.benchmarks))
        except FileNotFoundError as error:
            raise NoProjectError(f"{error}: asv needs an __init__.py in it") from None
        found = benchmark_classes(package)
        return found if Control in found.values() else {**found, CONTROL_BENCHMARK: Control}

    @functools.cached_property
    def operators(self) -> Mapping[str, type[KernelBenchmark]]:
        """Operator -> class, without the controls."""
        return {kind.operator: kind for kind in self.by_asv_name.values() if not issubclass(kind, Control)}

    def operator(self, name: str) -> type[KernelBenchmark]:
        """The class of an operator. Raises NoProjectError with the operators there are."""
        known: dict[str, type[KernelBenchmark]] = {**self.operators, Control.operator: Control}
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f" (did you mean {close[0]!r}?)" if close else ""
            raise NoProjectError(f"no operator {name!r}{hint}; there are {', '.join(self.operators) or 'none'}")
        return known[name]


def project_here(start: Path | None = None) -> Project:
    """The project of the working directory or of a folder above it. Raises NoProjectError."""
    start = (start or Path()).resolve()
    for folder in (start, *start.parents):
        for name in _NAMES:
            if (folder / name).is_file():
                return _read(folder / name)
    raise NoProjectError(f"{start} is in no project: there is no asv.conf.json; `warpbench init` writes one")


def _read(file: Path) -> Project:
    from asv.config import Config

    try:
        conf = Config.load(str(file))
    except Exception as error:  # asv raises what its JSON reader raises
        raise NoProjectError(f"{file} cannot be read: {error}") from None
    folder = file.parent
    return Project(
        folder=folder,
        benchmarks=folder / conf.benchmark_dir,
        results=folder / conf.results_dir,
        plugins=tuple(conf.plugins),
        environment_type=conf.environment_type or "",
    )

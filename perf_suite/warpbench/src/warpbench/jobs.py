"""Benchmarks as jobs: all cases of a class, or what asv was asked for. No torch here."""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .protocol import OPTIONAL_METRICS, Job

if TYPE_CHECKING:
    from .asv_metrics import AsvMetrics

SELECTION_VARIABLE = "WARPBENCH_SELECTION"  # a file that asv.py writes
QUICK_VARIABLE = "WARPBENCH_QUICK"  # set by asv.py when asv runs with --quick
CONTROL_BENCHMARK = "control.Control"  # asv's name of the controls in a project that has no module for them
# A benchmark's parameters, mostly (workload, implementation) -> the optional metrics wanted of it
Chosen = Mapping[tuple[str, ...], Collection[str]]


@dataclass(slots=True, kw_only=True)
class Selection:
    """What asv was asked for, by asv's name of the class: where the class is, and its combinations."""

    chosen: dict[str, dict[tuple[str, ...], set[str]]] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    control: str = CONTROL_BENCHMARK  # asv's name of the controls, asked for or not

    def add(self, benchmark: str, source: str, combination: tuple[str, ...], metric: str) -> None:
        """A benchmark × combination × metric; what every measurement has is not among the metrics."""
        self.sources[benchmark] = source
        metrics = self.chosen.setdefault(benchmark, {}).setdefault(combination, set())
        if metric in OPTIONAL_METRICS:
            metrics.add(metric)

    def write(self, path: Path) -> None:
        """The file that SELECTION_VARIABLE names."""
        rows = [
            (benchmark, self.sources[benchmark], combination, sorted(metrics))
            for benchmark, combinations in self.chosen.items()
            for combination, metrics in combinations.items()
        ]
        path.write_text(json.dumps({"control": self.control, "rows": rows}))


def jobs_of(
    kind: type[AsvMetrics], benchmark: str | None = None, *, quick: bool = False, chosen: Chosen | None = None
) -> tuple[Job, ...]:
    """A job for each case × implementation of a class, recorded as `benchmark`; where given, of `chosen` alone."""
    jobs = []
    for workload in kind.workloads():
        for implementation in workload.implementations:
            wanted = OPTIONAL_METRICS if chosen is None else chosen.get((workload.name, implementation))
            if wanted is not None:
                jobs.append(
                    Job(
                        benchmark=benchmark or asv_name(kind),
                        workload=workload,
                        implementation=implementation,
                        quick=quick,
                        metrics=tuple(metric for metric in OPTIONAL_METRICS if metric in wanted),
                    )
                )
    return tuple(jobs)


def jobs_wanted(kind: type[AsvMetrics]) -> tuple[Job, ...]:
    """All that asv was asked for, of this class and of all others; without a selection, all of this class."""
    selection = selection_wanted()
    if selection is None:
        return jobs_of(kind, quick=quick_wanted()) if hasattr(kind, "workloads") else ()
    jobs: list[Job] = []
    for benchmark, other in classes_wanted(selection).items():
        if hasattr(other, "workloads"):  # else it measures by itself
            jobs += jobs_of(other, benchmark, quick=quick_wanted(), chosen=selection.chosen[benchmark])
    return tuple(jobs)


def classes_wanted(selection: Selection) -> dict[str, Any]:
    """The classes that asv was asked for, by asv's names."""
    found = {}
    for benchmark, source in selection.sources.items():
        module, _, name = source.partition(":")
        found[benchmark] = getattr(importlib.import_module(module), name)
    return found


def asv_name(kind: type) -> str:
    """asv's name for a class: its module below the benchmark directory, and its own."""
    return ".".join([*kind.__module__.split(".")[1:], kind.__name__])


def quick_wanted() -> bool:
    """Whether asv runs with --quick."""
    return os.environ.get(QUICK_VARIABLE) == "1"


def selection_wanted() -> Selection | None:
    """The benchmarks that asv runs; None without a selection, which is everything."""
    path = os.environ.get(SELECTION_VARIABLE)
    if not path:
        return None
    content = json.loads(Path(path).read_text())
    found = Selection(control=content["control"])
    for benchmark, source, combination, metrics in content["rows"]:
        found.sources[benchmark] = source
        found.chosen.setdefault(benchmark, {})[tuple(combination)] = set(metrics)
    return found


def control_benchmark() -> str:
    """asv's name of the controls."""
    selection = selection_wanted()
    return selection.control if selection else CONTROL_BENCHMARK

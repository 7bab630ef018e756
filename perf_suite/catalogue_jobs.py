"""The catalogue as jobs, all of it or what asv was asked for. No torch here."""

import json
import os
from collections.abc import Collection, Mapping
from pathlib import Path

from .protocol import OPTIONAL_METRICS, Job
from .workloads import OPERATORS, workloads_of

SELECTION_VARIABLE = "PERF_SUITE_SELECTION"  # a file that asv_plugin.py writes
QUICK_VARIABLE = "PERF_SUITE_QUICK"  # set by asv_plugin.py when asv runs with --quick
# operator -> (workload, implementation) -> the metrics wanted of it
Selection = Mapping[str, Mapping[tuple[str, str], Collection[str]]]


def catalogue_jobs(
    operators: Collection[str] = OPERATORS, *, quick: bool = False, selection: Selection | None = None
) -> tuple[Job, ...]:
    """A job for each workload × implementation of the operators; of a selection only what it holds."""
    jobs = []
    for operator in operators:
        chosen = None if selection is None else selection.get(operator, {})
        for workload in workloads_of(operator):
            for implementation in workload.implementations:
                wanted = OPTIONAL_METRICS if chosen is None else chosen.get((workload.name, implementation))
                if wanted is not None:
                    jobs.append(
                        Job(
                            benchmark=benchmark_of(operator),
                            workload=workload,
                            implementation=implementation,
                            quick=quick,
                            metrics=tuple(metric for metric in OPTIONAL_METRICS if metric in wanted),
                        )
                    )
    return tuple(jobs)


def benchmark_of(operator: str) -> str:
    """asv's name for the class of an operator: "benchmarks.flash_attention.FlashAttention"."""
    return f"benchmarks.{operator}." + "".join(word.capitalize() for word in operator.split("_"))


def quick_wanted() -> bool:
    """Whether asv runs with --quick."""
    return os.environ.get(QUICK_VARIABLE) == "1"


def selection_wanted() -> Selection | None:
    """What asv was asked for; None if nobody says, which is everything."""
    path = os.environ.get(SELECTION_VARIABLE)
    if not path:
        return None
    found: dict[str, dict[tuple[str, str], list[str]]] = {}
    for operator, workload, implementation, metrics in json.loads(Path(path).read_text()):
        found.setdefault(operator, {})[workload, implementation] = metrics
    return found


def write_selection(selection: Selection, path: Path) -> None:
    """The file that SELECTION_VARIABLE names."""
    rows = [
        (operator, workload, implementation, sorted(metrics))
        for operator, chosen in selection.items()
        for (workload, implementation), metrics in chosen.items()
    ]
    path.write_text(json.dumps(rows))

"""The operators of the suite by name. No torch here."""

from collections.abc import Collection

from warpbench import KernelBenchmark
from warpbench.catalogue import benchmark_classes
from warpbench.jobs import jobs_of
from warpbench.protocol import Job
from warpbench.workload import Workload

from . import benchmarks

_BY_ASV_NAME = benchmark_classes(benchmarks)
BENCHMARKS: dict[str, type[KernelBenchmark]] = {kind.operator: kind for kind in _BY_ASV_NAME.values()}
OPERATORS = tuple(BENCHMARKS)


def workloads_of(operator: str) -> tuple[Workload, ...]:
    """All cases of an operator, GPU and CPU. Raises KeyError if there is no such operator."""
    if operator not in BENCHMARKS:
        raise KeyError(f"no operator {operator!r} in the catalogue; it has {', '.join(OPERATORS)}")
    return BENCHMARKS[operator].workloads()


def workload_named(operator: str, name: str) -> Workload:
    """One case. Raises KeyError with the names there are."""
    workloads_of(operator)
    return BENCHMARKS[operator].workload_named(name)


def catalogue_jobs(operators: Collection[str] = OPERATORS, *, quick: bool = False) -> tuple[Job, ...]:
    """A job for each case × implementation of the operators."""
    jobs: list[Job] = []
    for name, kind in _BY_ASV_NAME.items():
        if kind.operator in operators:
            jobs += jobs_of(kind, name, quick=quick)
    return tuple(jobs)

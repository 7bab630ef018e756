"""The smallest call of each operator, so that the host is what takes the time. No torch here."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from ..benchmark import KernelBenchmark
from ..workload import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One process's work, and where it writes."""

    run: str
    quick: bool
    jobs: str  # as JSON; those of this machine's device are measured
    journal: int  # a file descriptor
    report: str


# Compiling it anew takes longer than measuring all the others.
_LEFT_OUT = {"torch_compile"}
_DEVICES = ("cuda", "cpu")


def smallest(kind: type[KernelBenchmark], device: str) -> Workload:
    """The operator's smallest workload, called like the operator."""
    workload = kind.workload_of(kind.smallest_case(device))
    implementations = tuple(name for name in workload.implementations if name not in _LEFT_OUT)
    return replace(workload, name=kind.operator, implementations=implementations)


def implementations(kinds: Iterable[type[KernelBenchmark]]) -> tuple[str, ...]:
    """Those of any operator on any device."""
    workloads = [smallest(kind, device) for kind in kinds for device in _DEVICES]
    return tuple(dict.fromkeys(name for workload in workloads for name in workload.implementations))


def case(operator: str, implementation: str) -> str:
    """How a combination is called between the processes: "rope-warpwatch"."""
    return f"{operator}-{implementation}"

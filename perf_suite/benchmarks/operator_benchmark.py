"""The asv face of one operator's measurements."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from ..protocol import Outcome
from ..records import Status
from ..session import measure, quick_wanted
from ..workloads import workload_named, workloads_of

Cache = dict[tuple[str, str], Outcome]
SETUP_TIMEOUT_S = 3600.0  # all of an operator's combinations, first compilations included


class OperatorBenchmark(ABC):
    """Three metrics of one measurement. Abstract, so that asv's discovery passes it over.

    asv tells setup_caches apart by file and line, so each operator defines its own, in one line.
    """

    operator: ClassVar[str]
    param_names: ClassVar[list[str]] = ["workload", "implementation"]
    params: ClassVar[list[list[str]]]
    version = "1"  # asv's default hashes this source, so any edit would orphan the history
    timeout = 60.0

    @abstractmethod
    def setup_cache(self) -> Cache:
        """What `measured` returns for the operator."""

    def setup(self, cache: Cache, workload: str, implementation: str) -> None:
        """Not measured here is asv's n/a; no number where there should be one is asv's failure."""
        outcome = cache.get((workload, implementation))
        if outcome is None:
            device = workload_named(self.operator, workload).device
            raise NotImplementedError(f"{implementation} is not measured on this workload ({device}) here")
        measurement = outcome.measurement
        if measurement.status is Status.UNAVAILABLE:
            raise NotImplementedError(measurement.reason)
        if measurement.status is not Status.OK:
            raise RuntimeError(f"{measurement.status}: {measurement.reason}")

    def track_latency(self, cache: Cache, workload: str, implementation: str) -> dict[str, Any]:
        """Every sample, so that asv computes its own statistics."""
        return {"samples": list(cache[workload, implementation].samples_s), "number": 1}

    def track_bandwidth(self, cache: Cache, workload: str, implementation: str) -> float:
        """Least bytes over the median latency."""
        cost = workload_named(self.operator, workload).cost
        return cost.bytes / _latency_s(cache[workload, implementation]) / 1e9

    def track_tflops(self, cache: Cache, workload: str, implementation: str) -> float:
        """FLOPs over the median latency."""
        cost = workload_named(self.operator, workload).cost
        return cost.flops / _latency_s(cache[workload, implementation]) / 1e12

    track_latency.unit = "seconds"  # type: ignore[attr-defined]
    track_bandwidth.unit = "GB/s"  # type: ignore[attr-defined]
    track_tflops.unit = "TFLOP/s"  # type: ignore[attr-defined]


def parameters(operator: str) -> list[list[str]]:
    """asv's parameter grid: all workloads × every implementation that any of them has."""
    workloads = workloads_of(operator)
    implementations = dict.fromkeys(name for workload in workloads for name in workload.implementations)
    return [[workload.name for workload in workloads], list(implementations)]


def measured(operator: str, benchmark: str) -> Cache:
    """Measure the operator once, for all metrics."""
    results = measure(operator, benchmark=benchmark, quick=quick_wanted())
    return {(o.measurement.workload, o.measurement.implementation): o for o in results.outcomes}


def _latency_s(outcome: Outcome) -> float:
    latency_s = outcome.measurement.latency_s
    assert latency_s is not None, "setup lets only measured combinations through"
    return latency_s

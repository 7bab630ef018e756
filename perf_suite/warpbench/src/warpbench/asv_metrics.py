"""The metrics that asv records of one operator's measurements. No torch here."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from . import benchmark_root
from .cost import bound_s
from .jobs import classes_wanted, jobs_wanted, selection_wanted
from .protocol import Outcome
from .records import Ceilings, RunRecord, Status

if TYPE_CHECKING:
    from .compiled.code_metrics import ReadCode
    from .workload import Workload

SETUP_TIMEOUT_S = 7200.0  # all benchmarks, first compilations included


class Cache:
    """What one session measured, of all operators that asv asked for, by (source, workload, implementation)."""

    def __init__(
        self,
        run: RunRecord,
        outcomes: Mapping[tuple[str, str, str], Outcome],
        triton_files: Mapping[tuple[str, str], frozenset[str]],
    ) -> None:
        self.run, self.outcomes, self.triton_files = run, outcomes, triton_files
        self.code: dict[str, ReadCode] = {}  # of CompiledCodeBenchmarks, by their asv name


class AsvMetrics(ABC):
    """asv's side of a KernelBenchmark."""

    param_names: ClassVar[list[str]] = ["workload", "implementation"]
    params: ClassVar[list[list[str]]] = [[], []]
    version = "1"  # asv's default hashes this source, so any edit would orphan the history
    timeout = 60.0
    measured_by_warpbench = True  # asv_values.py looks this class's values up
    operator: ClassVar[str]

    @classmethod
    @abstractmethod
    def source(cls) -> str:
        """Where other processes find the class."""

    @classmethod
    @abstractmethod
    def workloads(cls) -> tuple[Workload, ...]:
        """All cases."""

    @classmethod
    @abstractmethod
    def workload_named(cls, name: str) -> Workload:
        """One workload. Raises KeyError with the names there are."""

    @classmethod
    def set_parameters(cls) -> None:
        """asv's parameter grid: all workloads × every implementation that any of them has."""
        workloads = cls.workloads()
        implementations = dict.fromkeys(name for workload in workloads for name in workload.implementations)
        cls.params = [[workload.name for workload in workloads], list(implementations)]

    # asv tokenizes the source of setup_cache and setup for each metric of each class, at every commit: they are short.
    def setup_cache(self) -> Cache:
        """One session measures what asv runs of all operators: asv distinguishes setup_caches by file and line."""
        return _session(type(self))

    setup_cache.timeout = SETUP_TIMEOUT_S  # type: ignore[attr-defined]

    def setup(self, cache: Cache, workload: str, implementation: str) -> None:
        """Not measured here is asv's n/a; no number where there should be one is asv's failure."""
        self._require_number(cache, workload, implementation)

    def track_latency(self, cache: Cache, workload: str, implementation: str) -> dict[str, Any]:
        """Every sample, so that asv computes its own statistics. Cold on a GPU, warm on a CPU."""
        outcome = self._measured(cache, workload, implementation)
        return {"samples": list(outcome.samples_s), "number": outcome.calls_per_sample}

    def track_warm_latency(self, cache: Cache, workload: str, implementation: str) -> dict[str, Any]:
        """In a CUDA graph, with the data in the L2 where it fits; else only of what is meant to be replayed."""
        outcome = self._measured(cache, workload, implementation)
        if not outcome.warm_samples_s:
            raise NotImplementedError(
                "measured where a call's bytes fit the GPU's L2, or where it is meant to be replayed"
            )
        return {"samples": list(outcome.warm_samples_s), "number": 1}

    def track_steady_latency(self, cache: Cache, workload: str, implementation: str) -> dict[str, Any]:
        """In a CUDA graph, over copies of the inputs in turn: what a call costs where one follows the other."""
        outcome = self._measured(cache, workload, implementation)
        if not outcome.steady_samples_s:
            raise NotImplementedError(outcome.measurement.steady_reason or "not measured")
        return {"samples": list(outcome.steady_samples_s), "number": 1}

    def track_cycles(self, cache: Cache, workload: str, implementation: str) -> float:
        """SM cycles of a call: what a kernel bound by its arithmetic takes, whatever the clock was."""
        return _known(self._measured(cache, workload, implementation).measurement.sm_cycles)

    def track_bandwidth(self, cache: Cache, workload: str, implementation: str) -> float:
        """Least bytes over the median latency."""
        cost = self.workload_named(workload).cost
        if not cost.bytes:
            raise NotImplementedError(f"the bytes of {workload} of {self.operator} are not known: it has no bandwidth")
        return cost.bytes / self._latency_s(cache, workload, implementation) / 1e9

    def track_tflops(self, cache: Cache, workload: str, implementation: str) -> float:
        """FLOPs over the median latency."""
        cost = self.workload_named(workload).cost
        if not cost.flops:
            raise NotImplementedError(f"{workload} of {self.operator} computes nothing: it has no rate")
        return cost.flops / self._latency_s(cache, workload, implementation) / 1e12

    def track_sol_peak(self, cache: Cache, workload: str, implementation: str) -> float:
        """Share of speed of light by the data sheet's peaks."""
        return self._share(cache, workload, implementation, cache.run.ceilings)

    def track_sol_ceiling(self, cache: Cache, workload: str, implementation: str) -> float:
        """Share of speed of light by this GPU's measured ceilings."""
        return self._share(cache, workload, implementation, cache.run.measured_ceilings)

    def track_peak_memory(self, cache: Cache, workload: str, implementation: str) -> int:
        """Allocated at the worst moment, over inputs and outputs."""
        return int(_known(self._measured(cache, workload, implementation).measurement.peak_memory_bytes))

    def track_energy(self, cache: Cache, workload: str, implementation: str) -> dict[str, Any]:
        """Energy of one call, of the headline workloads."""
        energy = _known(self._measured(cache, workload, implementation).measurement.energy)
        return {"samples": list(energy.per_call_j), "number": 1}

    def track_kernels_launched(self, cache: Cache, workload: str, implementation: str) -> int:
        """Kernels, copies and memsets a call."""
        return int(_known(self._measured(cache, workload, implementation).measurement.kernels_launched))

    track_latency.unit = "seconds"  # type: ignore[attr-defined]
    track_warm_latency.unit = "seconds"  # type: ignore[attr-defined]
    track_steady_latency.unit = "seconds"  # type: ignore[attr-defined]
    track_steady_latency.version = "1"  # type: ignore[attr-defined]
    track_cycles.unit = "cycles"  # type: ignore[attr-defined]
    track_bandwidth.unit = "GB/s"  # type: ignore[attr-defined]
    track_tflops.unit = "TFLOP/s"  # type: ignore[attr-defined]
    track_sol_peak.unit = "share of peak"  # type: ignore[attr-defined]
    track_sol_ceiling.unit = "share of ceiling"  # type: ignore[attr-defined]
    track_peak_memory.unit = "bytes"  # type: ignore[attr-defined]
    track_energy.unit = "joules"  # type: ignore[attr-defined]
    track_kernels_launched.unit = "launches"  # type: ignore[attr-defined]

    def _require_number(self, cache: Cache, workload: str, implementation: str) -> None:
        outcome = self._find(cache, workload, implementation)
        if outcome is None:
            device = self.workload_named(workload).device
            raise NotImplementedError(f"{implementation} is not measured on this workload ({device}) here")
        measurement = outcome.measurement
        if measurement.status in (Status.UNAVAILABLE, Status.UNCHANGED):
            raise NotImplementedError(measurement.reason)
        if measurement.status is not Status.OK:
            raise RuntimeError(f"{measurement.status}: {measurement.reason}")

    def _find(self, cache: Cache, workload: str, implementation: str) -> Outcome | None:
        return cache.outcomes.get((self.source(), workload, implementation))

    def _measured(self, cache: Cache, workload: str, implementation: str) -> Outcome:
        outcome = self._find(cache, workload, implementation)
        assert outcome is not None, "setup lets only measured combinations through"
        return outcome

    def _latency_s(self, cache: Cache, workload: str, implementation: str) -> float:
        latency_s = self._measured(cache, workload, implementation).measurement.latency_s
        assert latency_s is not None, "setup lets only measured combinations through"
        return latency_s

    def _share(self, cache: Cache, workload: str, implementation: str, ceilings: Ceilings | None) -> float:
        row = self.workload_named(workload)
        bound = bound_s(row.cost, row.products, ceilings) if ceilings else None
        return _known(bound) / self._latency_s(cache, workload, implementation)


def _session(kind: type[AsvMetrics]) -> Cache:
    from .session import measure

    benchmark_root.use_that_of(kind.__module__)
    jobs = jobs_wanted(kind)
    results = measure(jobs)
    sources = {job.benchmark: job.workload.source for job in jobs}
    found = {}
    for outcome in results.outcomes:
        measured = outcome.measurement
        if measured.benchmark in sources:  # else a control outside asv's selection
            found[sources[measured.benchmark], measured.workload, measured.implementation] = outcome
    cache = Cache(results.run, found, results.triton_files)
    if (selection := selection_wanted()) is not None:
        for name, each in classes_wanted(selection).items():
            if hasattr(each, "read_code"):  # a CompiledCodeBenchmark
                cache.code[name] = each.read_code(name, cache, selection.chosen[name])
    return cache


def _known(value: Any) -> Any:
    """asv's n/a for what this machine does not report."""
    if value is None:
        raise NotImplementedError("not known on this machine")
    return value

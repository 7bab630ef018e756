"""asv's side of host overhead: a call at each operator's smallest shape. No torch here."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from .. import benchmark_root
from ..benchmark import KernelBenchmark
from ..jobs import asv_name, quick_wanted, selection_wanted
from ..records import Status
from .session import HostOverheadResults, implementations, measure_host_overhead


class HostOverheadBenchmark(ABC):
    """Host seconds of a call, of each operator whose class has a smallest case. A workload is called like its operator.

    Abstract, so that asv passes over it: a project's own class names the benchmark classes.
    """

    param_names = ("workload", "implementation")
    params: ClassVar[tuple[list[str], list[str]]]
    version = "1"
    timeout = 60.0
    measured_by_warpbench = True

    @property
    @abstractmethod
    def kinds(self) -> Mapping[str, type[KernelBenchmark]]:
        """The benchmark classes by any name."""

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        cls.params = (list(cls._operators()), list(implementations(cls._operators().values())))

    @classmethod
    def _operators(cls) -> dict[str, type[KernelBenchmark]]:
        kinds: Any = cls.kinds
        return {kind.operator: kind for kind in kinds.values() if kind.smallest is not None}

    def setup_cache(self) -> HostOverheadResults:
        """One process measures every combination that asv was asked for."""
        benchmark_root.use_that_of(type(self).__module__)
        selection = selection_wanted()
        name = asv_name(type(self))
        asked = None if selection is None else selection.chosen.get(name, {})
        return measure_host_overhead(name, self._operators(), asked=asked, quick=quick_wanted())

    setup_cache.timeout = 3600.0  # type: ignore[attr-defined]

    def setup(self, results: HostOverheadResults, workload: str, implementation: str) -> None:
        """Not measured here is asv's n/a; no number where there should be one is asv's failure."""
        if results.unavailable:
            raise NotImplementedError(results.unavailable)
        outcome = results.outcomes.get((workload, implementation))
        if outcome is None:
            raise NotImplementedError(f"{workload} has no {implementation} on this machine's device")
        measurement = outcome.measurement
        if measurement.status is Status.UNAVAILABLE:
            raise NotImplementedError(measurement.reason)
        if measurement.status is not Status.OK:
            raise RuntimeError(f"{measurement.status}: {measurement.reason}")

    def track_host_overhead(self, results: HostOverheadResults, workload: str, implementation: str) -> dict[str, Any]:
        """Every sample, so that asv computes its own statistics."""
        outcome = results.outcomes[workload, implementation]
        return {"samples": list(outcome.samples_s), "number": outcome.calls_per_sample}

    track_host_overhead.unit = "seconds"  # type: ignore[attr-defined]

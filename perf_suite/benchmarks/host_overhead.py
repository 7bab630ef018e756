"""asv benchmarks of host overhead: what a call costs before the GPU has anything to do."""

from typing import Any

from warpbench.jobs import quick_wanted, selection_wanted
from warpbench.records import Status

from ..host_overhead.session import HostOverheadResults, measure_host_overhead
from ..host_overhead.smallest import OPERATORS, implementations


class HostOverhead:
    """Host seconds a call at each operator's smallest shape, which is called like the operator."""

    operator = "host_overhead"  # asv_values.selection hands on what asv was asked for under this name
    param_names = ("workload", "implementation")
    params = (list(OPERATORS), list(implementations()))
    version = "1"
    timeout = 60.0

    def setup_cache(self) -> HostOverheadResults:
        """One process measures every combination that asv was asked for."""
        chosen = selection_wanted()
        asked = None if chosen is None else chosen.get(self.operator, {})
        return measure_host_overhead("benchmarks.host_overhead.HostOverhead", asked=asked, quick=quick_wanted())

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

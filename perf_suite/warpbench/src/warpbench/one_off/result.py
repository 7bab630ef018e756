"""What a one-off benchmark found, and the figures that follow from it. No torch here."""

import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..cost import bound_s
from ..protocol import Outcome
from ..records import Ceilings, MeasurementRecord, RunRecord, Status
from ..workload import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What follows from one measurement; None where it has no number, or the machine no such ceiling."""

    spread: float | None  # interquartile range of the samples over their median
    bandwidth_bps: float | None  # least bytes over latency; None where the bytes are not known
    flops_per_s: float | None  # None too where there is nothing to compute
    of_peak: float | None  # share of the speed of light by the data sheet
    of_measured: float | None  # by the ceilings that `calibrate` measured
    speedup: float | None  # latency of the fastest baseline over this one's


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkResult:
    """One workload on one machine, by one or more implementations in the order they were measured."""

    run: RunRecord
    workload: Workload
    outcomes: tuple[Outcome, ...]
    controls: tuple[Outcome, ...] = ()

    def __iter__(self) -> Iterator[tuple[MeasurementRecord, Figures]]:
        return ((outcome.measurement, self.figures(outcome)) for outcome in self.outcomes)

    @property
    def best_baseline(self) -> MeasurementRecord | None:
        """The fastest of the baselines that gave a number."""
        baselines = [
            outcome.measurement
            for outcome in self.outcomes
            if outcome.measurement.implementation in self.workload.baselines
            and outcome.measurement.latency_s is not None
        ]
        return min(baselines, key=lambda measurement: measurement.latency_s or 0.0, default=None)

    @property
    def failed(self) -> bool:
        """Whether an implementation failed: a wrong result, an exception, a crash or a time limit."""
        return any(outcome.measurement.status is Status.FAILED for outcome in self.outcomes)

    def figures(self, outcome: Outcome) -> Figures:
        """The figures of one of the outcomes."""
        latency_s, cost, best = outcome.measurement.latency_s, self.workload.cost, self.best_baseline
        if latency_s is None:
            return Figures(
                spread=None, bandwidth_bps=None, flops_per_s=None, of_peak=None, of_measured=None, speedup=None
            )
        return Figures(
            spread=_spread(outcome.samples_s),
            bandwidth_bps=cost.bytes / latency_s if cost.bytes else None,
            flops_per_s=cost.flops / latency_s if cost.flops else None,
            of_peak=self._share(latency_s, self.run.ceilings),
            of_measured=self._share(latency_s, self.run.measured_ceilings),
            speedup=best.latency_s / latency_s if best and best.latency_s else None,
        )

    def table(self) -> str:
        """The result as text, for a terminal 100 columns wide or more."""
        from .table import table

        return table(self)

    def export(self, path: str | Path) -> Path:
        """Write the result, .json or .csv, and return where. Raises BadRequestError for another suffix."""
        from .export import export

        return export([self], Path(path))

    def _share(self, latency_s: float, ceilings: Ceilings | None) -> float | None:
        bound = bound_s(self.workload.cost, self.workload.dtype, ceilings) if ceilings else None
        return None if bound is None else bound / latency_s


def _spread(samples_s: tuple[float, ...]) -> float | None:
    if len(samples_s) < 2:
        return None
    first, median, third = statistics.quantiles(samples_s, n=4, method="inclusive")
    return (third - first) / median

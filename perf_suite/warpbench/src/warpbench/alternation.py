"""The implementations of a workload measured in turn, each twice: A B C, then C B A. No torch here.

A GPU's clock and temperature drift over seconds. Measured one after another, a kernel and its baseline see another
machine each, and their ratio moves with it. Each visit takes half of the streams, or half as long a sample on a CPU;
a recorded sample is the mean of a sample of either visit, so a steady drift leaves all implementations alike.
"""

import itertools
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import replace

from .protocol import Job, Outcome
from .records import MeasurementRecord, Visit

_VISITS = 2


def alternated(jobs: Sequence[Job]) -> list[Job]:
    """The jobs of each workload there and back again; one visit where a workload has one job, or where it is quick."""
    order: list[Job] = []
    for _, group in itertools.groupby(jobs, key=lambda job: (job.benchmark, job.workload)):
        together = list(group)
        if len(together) == 1 or any(job.quick for job in together):
            order += together
            continue
        order += [replace(job, visit=0, visits=_VISITS) for job in together]
        order += [replace(job, visit=1, visits=_VISITS) for job in reversed(together)]
    return order


def combined(visits: Sequence[Outcome]) -> Outcome:
    """One outcome of all visits of an implementation, each with a number; of one visit that visit itself.

    What is measured on one visit alone (warm, steady) is the last one's.
    """
    if len(visits) == 1:
        return visits[0]
    last = visits[-1]
    records = [visit.measurement for visit in visits]
    weights = [visit.calls_per_sample for visit in visits]
    samples = tuple(
        statistics.fmean(together, weights) for together in zip(*(v.samples_s for v in visits), strict=False)
    )
    clocks = [record.sm_clock_hz or () for record in records]
    measured = replace(
        last.measurement,
        reason=next((record.reason for record in records if record.inaccuracy == _largest(records)), None),
        inaccuracy=_largest(records),
        latency_s=statistics.median(samples),
        sample_count=sum(record.sample_count for record in records),
        sm_clock_hz=tuple(statistics.fmean(together) for together in zip(*clocks, strict=False)) or None,
        sm_cycles=_mean(record.sm_cycles for record in records),
        at_s=records[0].at_s,
        throttled_s=_summed(records),
        contenders=max((record.contenders for record in records if record.contenders is not None), default=None),
        relative_error=max(
            (record.relative_error for record in records if record.relative_error is not None), default=None
        ),
        visits=tuple(Visit(at_s=record.at_s or 0.0, latency_s=record.latency_s or 0.0) for record in records),
    )
    return replace(last, measurement=measured, samples_s=samples, calls_per_sample=sum(weights))


def _largest(records: Sequence[MeasurementRecord]) -> float | None:
    return max((record.inaccuracy for record in records if record.inaccuracy is not None), default=None)


def _mean(values: Iterator[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None


def _summed(records: Sequence[MeasurementRecord]) -> dict[str, float] | None:
    """Seconds throttled in all visits, by reason."""
    total: dict[str, float] = {}
    for record in records:
        for name, seconds in (record.throttled_s or {}).items():
            total[name] = total.get(name, 0.0) + seconds
    return total or None

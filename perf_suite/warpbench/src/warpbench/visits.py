"""In which order a run visits controls and implementations, and one outcome of several visits. No torch here.

A GPU's clock and temperature drift over seconds, and a machine may sit in another state than yesterday. The canaries
are visited at the start, between the workloads and at the end: they never change, so the machine moves them. The
implementations of a workload are measured in turn, each twice (A B C, then C B A), with half of the streams each time,
or half as long a sample on a CPU; a recorded sample is the mean of a sample of either visit, so a steady drift leaves
all of them alike.
"""

import itertools
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from .protocol import Job, Outcome
from .records import MeasurementRecord, Status, Visit
from .samples import RECORDED_SAMPLES, thinned

_JOBS_BETWEEN_VISITS = 32  # some 4 s on an H200, where most combinations take two


def is_control(job: Job) -> bool:
    """Whether a job measures a canary."""
    return job.implementation in job.workload.controls


def interleaved(jobs: Sequence[Job], controls: Sequence[Job]) -> list[Job]:
    """The jobs in their order, all `controls` visited first, last, and about every 32 jobs, never within a workload."""
    order = list(controls)
    since = 0
    for before, job in zip([None, *jobs], jobs, strict=False):
        if since >= _JOBS_BETWEEN_VISITS and before is not None and before.workload != job.workload:
            order += controls
            since = 0
        order.append(job)
        since += 1
    return order + list(controls) if jobs else order


def merged(visits: Sequence[Outcome]) -> Outcome:
    """One outcome of all visits of a canary: their samples together, and each visit's median.

    Visits without a number are left out; without any number the last of them stands.
    """
    good = [visit for visit in visits if visit.measurement.status is Status.OK]
    if not good:
        return visits[-1]
    share = RECORDED_SAMPLES // len(good)
    taken = [sample for visit in good for sample in thinned(visit.samples_s, share)]
    measured = replace(
        good[-1].measurement,
        latency_s=statistics.median(taken),
        sample_count=sum(visit.measurement.sample_count for visit in good),
        sm_clock_hz=tuple(clock for visit in good for clock in thinned(visit.measurement.sm_clock_hz or (), share))
        or None,
        sm_cycles=statistics.median(cycles)
        if (cycles := _known(visit.measurement.sm_cycles for visit in good))
        else None,
        visits=tuple(
            Visit(at_s=visit.measurement.at_s or 0.0, latency_s=visit.measurement.latency_s or 0.0) for visit in good
        ),
    )
    return replace(good[-1], measurement=measured, samples_s=tuple(taken))


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


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

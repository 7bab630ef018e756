"""The controls of a run: canaries visited at its start, between its workloads and at its end. No torch here.

A commit's kernel and its baselines are measured one after another, so a machine that drifts over a run, or sits in
another state than yesterday, moves them too. The canaries never change: what moves them is the machine.
"""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import replace

from .protocol import Job, Outcome
from .records import Status, Visit
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

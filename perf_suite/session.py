"""Measure workloads in one process that may crash or hang without taking the others along."""

import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from .ahead import compile_ahead
from .catalogue_jobs import catalogue_jobs
from .controls import interleaved, is_control, merged
from .protocol import STARTED, Job, Outcome, blank_record, outcome_from_line
from .records import RunRecord, WorkloadRecord
from .spool import Spool
from .watched_worker import Limits, WatchedWorker, WorkerStartError
from .workloads.workload import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """What a session measured."""

    run: RunRecord
    outcomes: tuple[Outcome, ...]


def measure(
    jobs: Sequence[Job],
    *,
    limits: Limits | None = None,
    on_outcome: Callable[[Outcome], None] = lambda outcome: None,
) -> Results:
    """Measure the jobs that this machine's device can do, in their order, with visits to the controls in between.

    Jobs for the GPU are done where torch sees one, jobs for the CPU where it does not; the rest is left out.
    Lines go to the spool as they come. Raises WorkerStartError if no worker can be started.
    """
    run = uuid.uuid4().hex
    spool = Spool(run)
    outcomes: list[Outcome] = []

    def done(outcome: Outcome) -> None:
        spool.append(outcome.measurement)
        outcomes.append(outcome)
        on_outcome(outcome)

    with WatchedWorker(run, limits or Limits()) as worker:
        record = worker.record
        mine = [job for job in jobs if job.workload.device == record.device and not is_control(job)]
        controls = _controls(jobs, record.device)
        order = interleaved(mine, controls)
        spool.append(record, *(_workload_record(run, job) for job in _one_a_workload(order)))
        compile_ahead(order)
        visits: dict[tuple[str, str], list[Outcome]] = {}
        for job, outcome in _outcomes(worker, order, run):
            if is_control(job):
                visits.setdefault((job.workload.name, job.implementation), []).append(outcome)
            else:
                done(outcome)
        for visited in visits.values():
            done(merged(visited))
    return Results(run=record, outcomes=tuple(outcomes))


def _controls(jobs: Sequence[Job], device: str) -> list[Job]:
    """The canaries that were asked for; all of them beside any other job, asked for or not, unless it is quick."""
    asked = [job for job in jobs if is_control(job) and job.workload.device == device]
    if any(job.quick for job in jobs) or len(asked) == len(jobs):
        return asked
    known = {(job.workload.name, job.implementation): job for job in asked}
    every = [job for job in catalogue_jobs(("control",)) if job.workload.device == device]
    return [known.get((job.workload.name, job.implementation), replace(job, metrics=())) for job in every]


def _outcomes(worker: WatchedWorker, jobs: list[Job], run: str) -> Iterator[tuple[Job, Outcome]]:
    """The jobs with their outcomes, in their order, over as many workers as it takes.

    A worker that ends between two jobs (it saw that CUDA works no longer) has reported what did it; one that
    ends within a job, or before its first, takes that job with it.
    """
    waiting = list(jobs)
    within_job = True
    worker.give(waiting)
    while waiting:
        line = worker.read_line()
        if line == STARTED:
            within_job = True
        elif line is not None:
            within_job = False
            yield waiting.pop(0), outcome_from_line(line)
        else:
            if within_job:
                job = waiting.pop(0)
                yield job, _lost(job, run, worker.last_words())
            if not waiting:
                return
            try:
                worker.restart()
            except WorkerStartError as error:  # the GPU is gone, say: what was measured stays
                yield from ((job, _lost(job, run, str(error))) for job in waiting)
                return
            worker.give(waiting)
            within_job = True


def _lost(job: Job, run: str, reason: str) -> Outcome:
    return Outcome(measurement=replace(blank_record(run, job), reason=reason))


def _one_a_workload(jobs: Sequence[Job]) -> list[Job]:
    return list({(job.benchmark, job.workload.name): job for job in jobs}.values())


def _workload_record(run: str, job: Job) -> WorkloadRecord:
    workload: Workload = job.workload
    return WorkloadRecord(
        run=run,
        benchmark=job.benchmark,
        operator=workload.operator,
        workload=workload.name,
        parameters=workload.parameters,
        dtype=workload.dtype,
        flops=workload.cost.flops,
        bytes=workload.cost.bytes,
        kernels=workload.kernels,
        baselines=workload.baselines,
        controls=workload.controls,
    )

"""Measure workloads in one process that may crash or hang without taking the others along."""

import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from .ahead import compile_ahead
from .catalogue_jobs import catalogue_jobs
from .compiled.unchanged import digests, unchanged
from .controls import interleaved, is_control, merged
from .protocol import STARTED, Job, Outcome, Stage, blank_record, outcome_from_line
from .records import Failure, RunRecord, Status
from .spool import Spool
from .watched_worker import Limits, WatchedWorker, WorkerStartError
from .workload_record import workload_record


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
        mine = [job for job in jobs if job.workload.device == record.device]
        code = digests(mine, record)
        known = unchanged(mine, record, code)
        fresh = [job for job in mine if not is_control(job) and (job.benchmark, job.workload.name) not in known]
        energy = [replace(job, stage=Stage.ENERGY) for job in fresh if _wants_energy(job)]
        order = [*interleaved(fresh, _controls(jobs, record.device)), *energy]
        spool.append(
            record, *(workload_record(run, job.benchmark, job.workload) for job in _one_a_workload([*mine, *order]))
        )
        for job in mine:
            if commit := known.get((job.benchmark, job.workload.name)):
                done(_skipped(job, run, commit, code[job.workload.operator, job.implementation]))
        worker.give(order)
        compile_ahead(order, code)
        visits: dict[tuple[str, str], list[Outcome]] = {}
        waiting: dict[tuple[str, str, str], Outcome] = {}
        for job, outcome in _outcomes(worker, order, run):
            digest = code.get((job.workload.operator, job.implementation))
            outcome = replace(outcome, measurement=replace(outcome.measurement, code_sha256=digest))
            if is_control(job):
                visits.setdefault((job.workload.name, job.implementation), []).append(outcome)
            elif job.stage is Stage.ENERGY:
                done(_with_energy(waiting.pop(_key(job)), outcome))
            elif _wants_energy(job):
                waiting[_key(job)] = outcome
            else:
                done(outcome)
        for visited in visits.values():
            done(merged(visited))
    return Results(run=record, outcomes=tuple(outcomes))


def _wants_energy(job: Job) -> bool:
    on_gpu = job.workload.device == "cuda"
    return on_gpu and "energy" in job.metrics and job.implementation in job.workload.energy_of and not job.quick


def _with_energy(outcome: Outcome, energy: Outcome) -> Outcome:
    """The energy beside the rest; where there is none, and nothing else to explain, why not.

    A call that failed while its energy was measured, as by a wrong result, has no number at all.
    """
    told = energy.measurement
    if told.status is Status.FAILED:
        return energy
    reason = outcome.measurement.reason or (f"no energy: {told.reason}" if told.energy is None else None)
    return replace(outcome, measurement=replace(outcome.measurement, energy=told.energy, reason=reason))


def _key(job: Job) -> tuple[str, str, str]:
    return job.benchmark, job.workload.name, job.implementation


def _controls(jobs: Sequence[Job], device: str) -> list[Job]:
    """The canaries that were asked for; all of them beside any other job, asked for or not, unless it is quick."""
    asked = [job for job in jobs if is_control(job) and job.workload.device == device]
    if any(job.quick for job in jobs) or len(asked) == len(jobs):
        return asked
    known = {(job.workload.name, job.implementation): job for job in asked}
    every = [job for job in catalogue_jobs(("control",)) if job.workload.device == device]
    return [known.get((job.workload.name, job.implementation), replace(job, metrics=())) for job in every]


def _outcomes(worker: WatchedWorker, jobs: list[Job], run: str) -> Iterator[tuple[Job, Outcome]]:
    """The jobs, which the worker has been given, with their outcomes, over as many workers as it takes.

    A worker that ends between two jobs (it saw that CUDA works no longer) has reported what did it; one that
    ends within a job, or before its first, takes that job with it.
    """
    waiting = list(jobs)
    within_job = True
    worker.begin()
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
                yield job, _lost(job, run, worker.last_words(), worker.failure())
            if not waiting:
                return
            try:
                worker.restart()
            except WorkerStartError as error:  # the GPU is gone, say: what was measured stays
                yield from ((job, _lost(job, run, str(error), Failure.CRASH)) for job in waiting)
                return
            worker.give(waiting)
            worker.begin()
            within_job = True


def _lost(job: Job, run: str, reason: str, failure: Failure) -> Outcome:
    return Outcome(measurement=replace(blank_record(run, job), reason=reason, failure=failure))


def _skipped(job: Job, run: str, commit: str, digest: str | None) -> Outcome:
    reason = f"code unchanged since {commit[:8]}"
    return Outcome(
        measurement=replace(blank_record(run, job), status=Status.UNCHANGED, reason=reason, code_sha256=digest)
    )


def _one_a_workload(jobs: Sequence[Job]) -> list[Job]:
    return list({(job.benchmark, job.workload.name): job for job in jobs}.values())

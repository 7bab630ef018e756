"""Measure an operator's workloads in one process that may crash or hang without taking the others along."""

import os
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from .protocol import STARTED, Job, Outcome, outcome_from_line
from .records import MeasurementRecord, RunRecord, Status, WorkloadRecord
from .spool import Spool
from .watched_worker import Limits, WatchedWorker, WorkerStartError
from .workloads import workload_named, workloads_of
from .workloads.workload import Workload

QUICK_VARIABLE = "PERF_SUITE_QUICK"  # set by asv_plugin.py when asv runs with --quick


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """What a session measured."""

    run: RunRecord
    outcomes: tuple[Outcome, ...]


def measure(
    operator: str,
    *,
    benchmark: str,
    quick: bool = False,
    limits: Limits | None = None,
    on_outcome: Callable[[Outcome], None] = lambda outcome: None,
) -> Results:
    """Measure every workload of `operator` that this machine's device has, each implementation in turn.

    GPU rows run where torch sees a GPU, CPU rows where it does not. Lines go to the spool as they come.
    Raises WorkerStartError if no worker can be started.
    """
    run = uuid.uuid4().hex
    spool = Spool(run)
    outcomes: list[Outcome] = []
    with WatchedWorker(run, limits or Limits()) as worker:
        record = worker.record
        workloads = [w for w in workloads_of(operator) if w.device == record.device]
        spool.append(record, *(_workload_record(run, benchmark, w) for w in workloads))
        jobs = [
            Job(
                benchmark=benchmark,
                operator=operator,
                workload=workload.name,
                implementation=implementation,
                quick=quick,
            )
            for workload in workloads
            for implementation in workload.implementations
        ]
        for outcome in _outcomes(worker, jobs, run):
            spool.append(outcome.measurement)
            outcomes.append(outcome)
            on_outcome(outcome)
    return Results(run=record, outcomes=tuple(outcomes))


def quick_wanted() -> bool:
    """Whether asv runs with --quick."""
    return os.environ.get(QUICK_VARIABLE) == "1"


def _outcomes(worker: WatchedWorker, jobs: list[Job], run: str) -> Iterator[Outcome]:
    """The jobs' outcomes in their order, over as many workers as it takes.

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
            waiting.pop(0)
            yield outcome_from_line(line)
        else:
            if within_job:
                yield _lost(waiting.pop(0), run, worker.last_words())
            if not waiting:
                return
            try:
                worker.restart()
            except WorkerStartError as error:  # the GPU is gone, say: what was measured stays
                yield from (_lost(job, run, str(error)) for job in waiting)
                return
            worker.give(waiting)
            within_job = True


def _lost(job: Job, run: str, reason: str) -> Outcome:
    workload = workload_named(job.operator, job.workload)
    record = MeasurementRecord(
        run=run,
        benchmark=job.benchmark,
        workload=job.workload,
        implementation=job.implementation,
        status=Status.FAILED,
        reason=reason,
        cache="cold" if workload.device == "cuda" else "warm",
        seed=workload.seed,
        tolerance=workload.tolerance,
    )
    return Outcome(measurement=record, samples_s=())


def _workload_record(run: str, benchmark: str, workload: Workload) -> WorkloadRecord:
    return WorkloadRecord(
        run=run,
        benchmark=benchmark,
        operator=workload.operator,
        workload=workload.name,
        parameters=workload.parameters,
        dtype=workload.dtype,
        flops=workload.cost.flops,
        bytes=workload.cost.bytes,
        kernels=workload.kernels,
        baselines=workload.baselines,
    )

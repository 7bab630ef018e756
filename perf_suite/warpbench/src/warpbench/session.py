"""Measure workloads in one process that may crash or hang without taking the others along."""

import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from .ahead import compile_ahead
from .control import Control
from .jobs import control_benchmark, jobs_of
from .protocol import STARTED, Job, Outcome, Stage, blank_record, outcome_from_line
from .records import Failure, RunRecord, Status
from .spool import Spool
from .unchanged import digests, unchanged
from .visits import alternated, combined, interleaved, is_control, merged
from .watched_worker import Limits, WatchedWorker, WorkerStartError
from .workload import ANY_DEVICE, workload_record

_MOST_TRIES = 3  # of a combination whose measurement is invalid
_REST_S = 5.0  # before another try: clocks recover within a second, the temperature takes longer
_Key = tuple[str, str, str]  # benchmark, workload, implementation


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """What a session measured."""

    run: RunRecord
    outcomes: tuple[Outcome, ...]
    triton_files: Mapping[tuple[str, str], frozenset[str]]  # by (source, implementation), as in Outcome


def measure(
    jobs: Sequence[Job],
    *,
    limits: Limits | None = None,
    on_outcome: Callable[[Outcome], None] = lambda outcome: None,
) -> Results:
    """Measure the jobs that this machine's device can do, each workload's in turn, with visits to the controls between.

    What is invalid is measured again at the end, after a rest, twice at most.
    Jobs for the GPU are done where torch sees one, jobs for the CPU where it does not; the rest is left out.
    Lines go to the spool as they come. Raises WorkerStartError if no worker can be started.
    """
    run = uuid.uuid4().hex
    spool = Spool(run)
    outcomes: list[Outcome] = []
    triton_files: dict[tuple[str, str], frozenset[str]] = {}

    def done(outcome: Outcome) -> None:
        spool.append(outcome.measurement)
        outcomes.append(outcome)
        on_outcome(outcome)

    def enter(ledger: _Ledger, job: Job, outcome: Outcome) -> None:
        key = (job.workload.source, job.implementation)
        triton_files[key] = triton_files.get(key, frozenset()).union(outcome.triton_files)
        ledger.enter(job, outcome)

    with WatchedWorker(run, limits or Limits()) as worker:
        record = worker.record
        jobs = [_on(job, record.device) for job in jobs]
        mine = [job for job in jobs if job.workload.device == record.device]
        code = digests(mine, record)
        known = unchanged(mine, record, code)
        fresh = [job for job in mine if not is_control(job) and (job.benchmark, job.workload.name) not in known]
        controls = _controls(jobs, record.device)
        spool.append(
            record, *(workload_record(run, job.benchmark, job.workload) for job in _one_a_workload([*mine, *controls]))
        )
        for job in mine:
            if commit := known.get((job.benchmark, job.workload.name)):
                done(_skipped(job, run, commit, code[job.workload.operator, job.implementation]))
        energy = [replace(job, stage=Stage.ENERGY) for job in fresh if _measures_energy(job)]
        order = [*interleaved(alternated(fresh), controls), *energy]
        worker.give(order)
        compile_ahead([*controls, *fresh], code)
        ledger = _Ledger(fresh, code, done)
        for job, outcome in _outcomes(worker, order, run):
            enter(ledger, job, outcome)
        while retried := ledger.invalid(_MOST_TRIES):
            order = interleaved(alternated([job for job in retried if not is_control(job)]), controls)
            time.sleep(_REST_S)
            try:
                worker.restart()
            except WorkerStartError:  # what is known of them stands
                break
            worker.give(order)
            ledger.begin_again(retried)
            for job, outcome in _outcomes(worker, order, run):
                enter(ledger, job, outcome)
        ledger.close()
    return Results(run=record, outcomes=tuple(outcomes), triton_files=triton_files)


class _Ledger:
    """What is known of each combination so far, handed to `done` as soon as nothing more can change it.

    A combination is complete with its last visit, or with the first that has no number; an invalid one waits to be
    measured again, one whose energy is requested for its energy.
    """

    def __init__(
        self, jobs: Sequence[Job], code: Mapping[tuple[str, str], str | None], done: Callable[[Outcome], None]
    ) -> None:
        self._jobs = {_key(job): job for job in jobs}
        self._code, self._done = code, done
        self._visits: dict[_Key, list[Outcome]] = {}
        self._tries: dict[_Key, int] = {}
        self._held: dict[_Key, Outcome] = {}  # complete, but not done
        self._energy: dict[_Key, Outcome] = {}
        self._controls: dict[_Key, tuple[Job, list[Outcome]]] = {}

    def enter(self, job: Job, outcome: Outcome) -> None:
        """Take one outcome of the worker."""
        key = _key(job)
        digest = self._code.get((job.workload.operator, job.implementation))
        tries = self._tries.get(key, 1)
        outcome = replace(outcome, measurement=replace(outcome.measurement, code_sha256=digest, tries=tries))
        if is_control(job):
            self._controls.setdefault(key, (job, []))[1].append(outcome)
        elif job.stage is Stage.ENERGY:
            self._energy[key] = outcome
            self._release(key)
        else:
            self._visited(job, outcome)

    def invalid(self, most_tries: int) -> list[Job]:
        """The combinations, and the controls, that are worth another try."""
        jobs = [self._jobs[key] for key, outcome in self._held.items() if _is_invalid(outcome)]
        jobs += [job for job, visits in self._controls.values() if all(map(_is_invalid, visits))]
        return [job for job in jobs if self._tries.get(_key(job), 1) < most_tries]

    def begin_again(self, jobs: Sequence[Job]) -> None:
        """The jobs are about to be measured once more."""
        for key in map(_key, jobs):
            self._tries[key] = self._tries.get(key, 1) + 1
            self._visits.pop(key, None)

    def close(self) -> None:
        """All that is left is as it is."""
        for key in list(self._held):
            self._finish(key)
        for _, visits in self._controls.values():
            self._done(merged(visits))

    def _visited(self, job: Job, outcome: Outcome) -> None:
        key = _key(job)
        visits = self._visits.setdefault(key, [])
        if visits and visits[-1].measurement.status is not Status.OK:
            return  # complete since its first visit
        visits.append(outcome)
        if outcome.measurement.status is not Status.OK:
            self._held[key] = outcome
        elif len(visits) == job.visits:
            self._held[key] = combined(visits)
        else:
            return
        self._release(key)

    def _release(self, key: _Key) -> None:
        outcome = self._held.get(key)
        if outcome is None or _is_invalid(outcome):
            return
        waits_for_energy = outcome.measurement.status is Status.OK and _measures_energy(self._jobs[key])
        if key in self._energy or not waits_for_energy:
            self._finish(key)

    def _finish(self, key: _Key) -> None:
        outcome = self._held.pop(key)
        self._done(_with_energy(outcome, self._energy[key]) if key in self._energy else outcome)


def _on(job: Job, device: str) -> Job:
    """The job on this machine's device, where its case may run on any."""
    return replace(job, workload=replace(job.workload, device=device)) if job.workload.device == ANY_DEVICE else job


def _is_invalid(outcome: Outcome) -> bool:
    return outcome.measurement.status is Status.INVALID


def _measures_energy(job: Job) -> bool:
    on_gpu = job.workload.device == "cuda"
    return on_gpu and "energy" in job.metrics and job.implementation in job.workload.energy_of and not job.quick


def _with_energy(outcome: Outcome, energy: Outcome) -> Outcome:
    """The outcome with its energy; where there is none, and nothing else to explain, why not.

    A call that failed while its energy was measured, as by a wrong result, has no number at all.
    """
    measured = energy.measurement
    if measured.status is Status.FAILED:
        return energy
    reason = outcome.measurement.reason or (f"no energy: {measured.reason}" if measured.energy is None else None)
    return replace(outcome, measurement=replace(outcome.measurement, energy=measured.energy, reason=reason))


def _key(job: Job) -> _Key:
    return job.benchmark, job.workload.name, job.implementation


def _controls(jobs: Sequence[Job], device: str) -> list[Job]:
    """The requested canaries; all canaries if there is any other job, requested or not, unless it is quick."""
    asked = [job for job in jobs if is_control(job) and job.workload.device == device]
    if any(job.quick for job in jobs) or len(asked) == len(jobs):
        return asked
    known = {(job.workload.name, job.implementation): job for job in asked}
    every = [job for job in jobs_of(Control, control_benchmark()) if job.workload.device == device]
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
                if not is_control(job):  # nor on another visit
                    waiting = [other for other in waiting if _key(other) != _key(job)]
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

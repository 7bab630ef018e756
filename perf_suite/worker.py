"""The process that measures: `python -m perf_suite.worker FD RUN`, started and watched by session.py.

On FD it writes a run record, then one outcome a line; from standard input it reads the jobs. Whatever it
survives it reports itself. What it does not survive (a crash, a hang, a CUDA context that works no longer) its
watcher reports, and starts another worker for the rest.
"""

import datetime
import os
import statistics
import sys
from dataclasses import dataclass, replace

import torch

from . import context, gate, processor
from .implementations import UnavailableError, prepare
from .inputs import Inputs, make_inputs
from .protocol import STARTED, Job, Outcome, jobs_from_json, outcome_to_line
from .records import MeasurementRecord, RunRecord, Status, to_line
from .timing import Stopwatch
from .timing.cpu import THREADS
from .timing.timing import TimingError, thinned
from .workloads import workload_named
from .workloads.workload import Workload

_REASON_LENGTH = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bench:
    """What the implementations of one workload share."""

    workload: Workload
    inputs: Inputs
    questions: tuple[gate.Question, ...]


def main(fd: int, run: str) -> None:
    """Greet, then measure the jobs of standard input in their order."""
    device = context.device()
    monitor = context.GpuMonitor() if device == "cuda" else None
    with os.fdopen(fd, "w", buffering=1) as channel:
        print(to_line(_run_record(run, device, monitor)), file=channel)
        jobs = jobs_from_json(sys.stdin.read())
        stopwatch = Stopwatch(device=device, quick=any(job.quick for job in jobs))
        bench: _Bench | None = None

        def measure(index: int) -> None:
            nonlocal bench
            job = jobs[index]
            workload = workload_named(job.operator, job.workload)
            blank = _blank(run, job, workload)
            print(STARTED, file=channel)
            try:
                if bench is None or bench.workload is not workload:
                    bench = None  # gives its memory back before the next one is made
                    bench = _set_up(workload)
                outcome = _measure(bench, job, blank, monitor, stopwatch)
            except (UnavailableError, torch.cuda.OutOfMemoryError) as error:
                outcome = _numberless(blank, Status.UNAVAILABLE, error)
            except TimingError as error:
                outcome = _numberless(blank, Status.INVALID, error)
            except Exception as error:  # a kernel may raise anything; its reason is the record
                outcome = _numberless(blank, Status.FAILED, error)
            print(outcome_to_line(outcome), file=channel)
            if device == "cuda" and not _gpu_works():
                sys.exit("the CUDA context works no longer")

        stopwatch.for_each(len(jobs), measure)


def _run_record(run: str, device: str, monitor: context.GpuMonitor | None) -> RunRecord:
    return RunRecord(
        run=run,
        commit=os.environ.get("ASV_COMMIT", ""),
        environment=os.environ.get("ASV_ENV_NAME", ""),
        started_at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        device=device,
        gpu=monitor.gpu() if monitor else None,
        cpu=processor.describe(threads=THREADS if device == "cpu" else torch.get_num_threads()),
        software=context.software(),
        ceilings=monitor.ceilings() if monitor else None,
    )


def _blank(run: str, job: Job, workload: Workload) -> MeasurementRecord:
    return MeasurementRecord(
        run=run,
        benchmark=job.benchmark,
        workload=job.workload,
        implementation=job.implementation,
        status=Status.FAILED,
        cache="cold" if workload.device == "cuda" else "warm",
        seed=workload.seed,
        tolerance=workload.tolerance,
    )


def _set_up(workload: Workload) -> _Bench:
    """Two sets of activations over one set of weights, each with its reference."""
    generator = torch.Generator(workload.device).manual_seed(workload.seed)
    inputs = make_inputs(workload, generator)
    first = gate.ask(inputs)
    for tensor in inputs.activations():
        tensor.normal_(generator=generator)
    return _Bench(workload=workload, inputs=inputs, questions=(first, gate.ask(inputs)))


def _measure(
    bench: _Bench, job: Job, blank: MeasurementRecord, monitor: context.GpuMonitor | None, stopwatch: Stopwatch
) -> Outcome:
    """Gate, stopwatch, gate again."""
    inputs, tolerance = bench.inputs, bench.workload.tolerance
    prepared = prepare(bench.workload, job.implementation, inputs)
    error = gate.check(prepared.run, inputs, bench.questions, tolerance)
    before = monitor.conditions() if monitor else context.UNKNOWN_CONDITIONS
    timing = stopwatch.sample_latency(prepared.run)
    after = monitor.conditions() if monitor else context.UNKNOWN_CONDITIONS
    gate.relative_error(prepared.run(), inputs, bench.questions[-1].answer, tolerance)
    samples_s = thinned(timing.samples_s)
    events = context.clock_events(before, after)
    reason = context.throttled(events)
    measured = replace(
        blank,
        status=Status.INVALID if reason else Status.OK,
        reason=reason,
        latency_s=None if reason else statistics.median(samples_s),
        sample_count=len(timing.samples_s),
        sm_clock_hz=thinned(timing.sm_clock_hz) if timing.sm_clock_hz else None,
        temperature_c=after.temperature_c,
        clock_event_reasons=events,
        cache=timing.cache,
        backend=prepared.backend,
        timer=timing.timer,
        relative_error=error,
    )
    return Outcome(measurement=measured, samples_s=() if reason else samples_s)


def _numberless(blank: MeasurementRecord, status: Status, error: Exception) -> Outcome:
    text = str(error) if isinstance(error, UnavailableError | TimingError | gate.WrongResultError) else repr(error)
    return Outcome(measurement=replace(blank, status=status, reason=text[:_REASON_LENGTH]), samples_s=())


def _gpu_works() -> bool:
    """Whether CUDA still answers; also gives the timed call's memory back, which was kept for NVBench's stream."""
    try:
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        return bool(torch.ones(1, device="cuda").item() == 1.0)
    except RuntimeError:
        return False


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])

"""The process that measures: `python -m warpbench.worker FD RUN BEGUN`, started and watched by session.py.

On FD it writes a run record, then one outcome a line. From standard input it reads the jobs, on one line, and begins
when that is closed. It reports every error it can catch. What it cannot (a crash, a hang, a CUDA context that works no
longer) its watcher reports, and starts another worker for the rest.
"""

import contextlib
import importlib
import os
import sys
from dataclasses import replace

import torch

from . import context, gate, run_record
from .compiled.triton_cache import compiled_files
from .implementation import implementations_of
from .launches import NotCapturableError
from .measurement import Bench, measure, measure_energy
from .operators import benchmark_class
from .prepared import UnavailableError
from .protocol import STARTED, Job, Outcome, Stage, blank_record, jobs_from_json, outcome_to_line
from .records import Failure, MeasurementRecord, Status, to_line
from .setting import Setting, set_up
from .timing import Stopwatch, cpu
from .timing.timing import TimingError

_REASON_LENGTH = 400  # characters kept of what an implementation raised


def main(fd: int, run: str, begun: float) -> None:
    """Greet, then measure the jobs of standard input in their order; `begun` is when the run did, as time.time()."""
    device = context.device()
    monitor = context.GpuMonitor() if device == "cuda" else None
    if device == "cpu":  # between the timed calls too: on a busy machine each meeting of threads costs milliseconds
        torch.set_num_threads(cpu.THREADS)
    with os.fdopen(fd, "w", buffering=1) as channel:
        record = run_record.describe(run, device, monitor)
        print(to_line(record), file=channel)
        jobs = jobs_from_json(sys.stdin.readline())
        if any(job.implementation == "torch_compile" for job in jobs):
            importlib.import_module("torch._inductor.compile_fx")  # seconds, while others compile ahead
        sys.stdin.readline()  # closed when the measuring may begin
        bench = Bench(
            stopwatch=Stopwatch(device=device, quick=any(job.quick for job in jobs)),
            monitor=monitor,
            stream=torch.cuda.Stream() if device == "cuda" else None,
            begun=begun,
        )
        setting: Setting | None = None

        def body(index: int) -> None:
            nonlocal setting
            job = jobs[index]
            print(STARTED, file=channel)
            blank = blank_record(run, job)
            files: list[str] = []
            try:
                if setting is None or setting.workload != job.workload:
                    setting = None  # gives its memory back before the next one is made
                    setting = set_up(job.workload)
                stage = measure_energy if job.stage is Stage.ENERGY else measure
                watched = device == "cuda" and is_watched(job)
                with compiled_files() if watched else contextlib.nullcontext(files) as files:
                    outcome = stage(bench, setting, job, blank)
            except (UnavailableError, torch.cuda.OutOfMemoryError) as error:
                outcome = _numberless(blank, Status.UNAVAILABLE, error)
            except TimingError as error:
                outcome = _numberless(blank, Status.INVALID, error)
            except gate.WrongResultError as error:
                outcome = _numberless(blank, Status.FAILED, error, Failure.WRONG_RESULT)
            except Exception as error:  # a kernel may raise anything; its reason is the record
                outcome = _numberless(blank, Status.FAILED, error, Failure.ERROR)
            print(outcome_to_line(replace(outcome, triton_files=tuple(files))), file=channel)
            if device == "cuda" and not _gpu_works():
                sys.exit("the CUDA context works no longer")

        bench.stopwatch.for_each(len(jobs), body)


def is_watched(job: Job) -> bool:
    """Whether what Triton compiles for a job is recorded: of kernels, and of baselines that name theirs."""
    mark = implementations_of(benchmark_class(job.workload.source)).get(job.implementation)
    return job.implementation in job.workload.kernels or bool(mark and mark.kernels)


def _numberless(blank: MeasurementRecord, status: Status, error: Exception, failure: Failure | None = None) -> Outcome:
    ours = UnavailableError | TimingError | gate.WrongResultError | NotCapturableError
    text = str(error) if isinstance(error, ours) else repr(error)
    if str(error).startswith("CUDA error: "):
        text = str(error).partition("\n")[0]  # the lines that follow advise on debugging
    return Outcome(measurement=replace(blank, status=status, reason=text[:_REASON_LENGTH], failure=failure))


def _gpu_works() -> bool:
    """Whether CUDA still answers; also gives the timed call's memory back, which was kept for its streams."""
    try:
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        return bool(torch.ones(1, device="cuda").item() == 1.0)
    except RuntimeError:
        return False


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], float(sys.argv[3]))

"""The process that a profiler watches, started by watched_call.py.

It builds inputs and implementation as the worker does, passes the gate, warms up, and opens the profiler's range
(cudaProfilerStart to cudaProfilerStop) around the calls alone. Then it checks the result once more: a profiler
replays a kernel several times, and a kernel that does not survive that is not the kernel that was measured.
"""

import argparse
from pathlib import Path

import torch

from ..context import GpuMonitor, device
from ..gate import Gate, WrongResultError
from ..operators import prepare
from ..output import Output
from ..prepared import Prepared, UnavailableError
from ..protocol import jobs_from_json
from ..run_record import describe
from ..setting import set_up
from ..workload import Workload
from .watched_call import CallReport, write_report

_WARM_UP_CALLS = 3  # the first may load a library, compile or choose an algorithm


def main() -> None:
    """Read the command line, make the calls, write the report."""
    parser = argparse.ArgumentParser(prog="python -m warpbench.profiling.call", description=__doc__)
    parser.add_argument("job", help="a list of one job, as JSON")
    parser.add_argument("run")
    parser.add_argument("report", type=Path)
    parser.add_argument("--calls", type=int, default=1)
    arguments = parser.parse_args()
    (job,) = jobs_from_json(arguments.job)
    here = device()
    run = describe(arguments.run, here, GpuMonitor() if here == "cuda" else None)
    try:
        report = CallReport(run=run, backend=_profiled(job.workload, job.implementation, arguments.calls))
    except (UnavailableError, WrongResultError) as failure:
        report = CallReport(run=run, reason=str(failure))
    except Exception as failure:  # a kernel may raise anything; its reason is the report
        report = CallReport(run=run, reason=repr(failure))
    write_report(report, arguments.report)


def _profiled(workload: Workload, implementation: str, calls: int) -> str | None:
    """The backend taken; raises what the implementation raises, UnavailableError, WrongResultError."""
    if workload.device != "cuda" or device() != "cuda":
        raise UnavailableError(f"{workload.name} runs on {workload.device}, torch here on {device()}; it takes a GPU")
    setting = set_up(workload)
    prepared = prepare(workload, implementation, setting.inputs)
    is_baseline = implementation in workload.baselines
    gate = Gate(prepared.run, setting.inputs, setting.vectors, workload.tolerance, is_baseline=is_baseline)
    gate.check()
    for _ in range(_WARM_UP_CALLS):
        prepared.run()
    gate.begin_timing()
    gate.after_timed_call(_within_range(prepared, f"{workload.operator}/{workload.name} {implementation}", calls))
    gate.check_timed()
    return prepared.backend


def _within_range(prepared: Prepared, title: str, calls: int) -> Output:
    """The last call's output; an NVTX range names all calls, and one inside it each call."""
    torch.cuda.synchronize()
    torch.cuda.cudart().cudaProfilerStart()
    with torch.cuda.nvtx.range(title):
        for index in range(calls):
            with torch.cuda.nvtx.range(f"call {index}"):
                out = prepared.run()
    torch.cuda.synchronize()
    torch.cuda.cudart().cudaProfilerStop()
    return out


if __name__ == "__main__":
    main()

"""Compile ahead, on all cores: `python -m warpbench.ahead`, jobs and their stamps on standard input, a line each.

Triton and torch.compile take half a second for each new shape, which measures nothing. So while the worker makes ready,
a few processes make the first calls of such implementations and leave the result in the compilers' own caches on disk,
where the worker finds it. Whatever goes wrong here goes wrong again in the worker, which says so.
"""

import contextlib
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from .child_process import compiling_alone, python_running
from .protocol import Job, jobs_from_json, jobs_to_json

_COMPILED = ("triton", "torch_compile")
_MOST_PROCESSES = 8
_JOBS_WORTH_A_PROCESS = 3  # below that a process costs more than it saves
_LIMIT_S = 300.0
_STAMPS = Path(tempfile.gettempdir()) / f"warpbench_compiled_{os.getuid()}"


def compile_ahead(jobs: Sequence[Job], code: Mapping[tuple[str, str], str | None]) -> None:
    """Make the first calls of those jobs that compile and were not compiled here before, and return when all are done.

    `code` is the digest of each (operator, implementation) that is ours.
    """
    compiled = [job for job in jobs if job.implementation in _COMPILED and job.workload.device == "cuda"]
    stamped = [(job, _stamp(job, code.get((job.workload.operator, job.implementation)))) for job in compiled]
    waiting = [(job, stamp) for job, stamp in stamped if not stamp.exists()]
    cores = len(os.sched_getaffinity(0))
    count = min(_MOST_PROCESSES, cores // 2, len(waiting) // _JOBS_WORTH_A_PROCESS)
    deadline = time.monotonic() + _LIMIT_S
    if count:
        _STAMPS.mkdir(exist_ok=True)
    with contextlib.ExitStack() as processes:
        started = [processes.enter_context(_process(waiting[index::count])) for index in range(count)]
        for process in started:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, deadline - time.monotonic()))


def _stamp(job: Job, code: str | None) -> Path:
    """The file that says that a job's code has been compiled here; should a cache be gone, the worker compiles."""
    content = {
        "workload": asdict(job.workload),
        "implementation": job.implementation,
        "code": code,
        "python": sys.version,
    }
    return _STAMPS / hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


@contextlib.contextmanager
def _process(stamped: Sequence[tuple[Job, Path]]) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        python_running("warpbench.ahead"),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=compiling_alone(),
        text=True,
    )
    try:
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it ended early; so will the worker, and say why
            process.stdin.write(jobs_to_json([job for job, _ in stamped]) + "\n")
            process.stdin.write(json.dumps([str(stamp) for _, stamp in stamped]) + "\n")
            process.stdin.close()
        yield process
    finally:
        process.kill()
        process.wait()


def _make_first_calls(jobs: Sequence[Job], stamps: Sequence[Path]) -> None:
    """One after another, each stamped as soon as it is compiled, or is known not to be there to compile."""
    import torch

    from .operators import make_inputs, prepare
    from .prepared import UnavailableError

    for job, stamp in zip(jobs, stamps, strict=True):
        with contextlib.suppress(Exception):
            generator = torch.Generator(job.workload.device).manual_seed(job.workload.seed)
            inputs = make_inputs(job.workload, generator)
            with contextlib.suppress(UnavailableError):
                prepare(job.workload, job.implementation, inputs).run()
                torch.cuda.synchronize()
            stamp.touch()
            torch.cuda.empty_cache()


if __name__ == "__main__":
    _make_first_calls(jobs_from_json(sys.stdin.readline()), [Path(name) for name in json.loads(sys.stdin.readline())])

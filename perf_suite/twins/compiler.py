"""Compile Triton twins: `python -m perf_suite.twins.compiler FOLDER FUNCTION:ARCHITECTURE...`, started by __init__.py.

Leaves in FOLDER a cubin for each configuration of each function and architecture, and what.jsonl, which says what is
what. Each compilation has a process of its own: Triton's passes end the process where they meet what they do not
expect. How long one took is kept in Triton's cache, so that nothing is compiled again for its time alone.
"""

import json
import multiprocessing
import os
import sys
from collections.abc import Collection, Iterable, Iterator
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, TextIO, cast

import torch
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from ..architectures import compute_capability_of
from ..implementations import prepare
from ..inputs import make_inputs
from ..watched_kernels import WATCHED
from ..workloads import workloads_of
from . import FACTS, CompiledConfiguration
from .pretended_gpu import Specialization, pretended_gpu

_REASON_LENGTH = 300


@dataclass(frozen=True, slots=True)
class _Task:
    architecture: str
    function: str
    specialization: Specialization


def main(folder: Path, wanted: Collection[tuple[str, str]]) -> None:
    """Compile what is wanted, as (function, architecture), as many at a time as there are cores."""
    tasks: list[_Task] = []
    with (folder / FACTS).open("w", buffering=1) as facts:
        for architecture in dict.fromkeys(architecture for _, architecture in wanted):
            for operator, watched in WATCHED.items():
                functions = [function for function in watched.twins if (function, architecture) in wanted]
                try:
                    found = _tasks(operator, architecture) if functions else []
                except Exception as error:  # a twin may refuse this GPU, or be older than today's workloads
                    found = []
                    for function in functions:
                        _write(facts, _failed(architecture, function, "", repr(error)))
                tasks += [task for task in found if task.function in functions]
        _warm_up()
        for compiled in _compiled(tasks, folder):
            _write(facts, compiled)


def _tasks(operator: str, architecture: str) -> list[_Task]:
    """Each configuration that the catalogue's workloads lead to; of its specializations the first."""
    with pretended_gpu(compute_capability_of(architecture)) as launches:
        for workload in workloads_of(operator):
            if workload.device == "cuda" and "triton" in workload.implementations:
                prepare(workload, "triton", make_inputs(workload, torch.Generator())).run()
    first: dict[tuple[str, str], Specialization] = {}
    for launch in launches:
        first.setdefault((launch.name, launch.configuration), launch)
    return [_Task(architecture, launch.name, launch) for launch in first.values()]


def _warm_up() -> None:
    """What Triton does once in a process, so that it is no part of anything's compile time."""
    triton.compile(ASTSource(_nothing, {"ptr": "*i32"}, {}, {}), target=GPUTarget("cuda", 90, 32))


@triton.jit
def _nothing(ptr):  # type: ignore[no-untyped-def]
    """ptr[0] = 0."""
    tl.store(ptr, 0)


def _compiled(tasks: Iterable[_Task], folder: Path) -> Iterator[CompiledConfiguration]:
    """The tasks' results as they come."""
    waiting = list(enumerate(tasks))
    fork = multiprocessing.get_context("fork")
    running: dict[Any, tuple[_Task, BaseProcess]] = {}
    while waiting or running:
        while waiting and len(running) < len(os.sched_getaffinity(0)):
            index, task = waiting.pop(0)
            reader, writer = fork.Pipe(duplex=False)
            process: BaseProcess = fork.Process(target=_compile, args=(task, folder / f"{index}.cubin", writer))
            process.start()
            writer.close()
            running[reader] = task, process
        for ready in wait(list(running)):
            task, process = running.pop(ready)
            try:
                yield cast(Connection, ready).recv()
            except EOFError:
                process.join()
                words = f"Triton's compiler died with exit status {process.exitcode}"
                yield _failed(task.architecture, task.function, task.specialization.configuration, words)
            process.join()


def _compile(task: _Task, target: Path, writer: Connection) -> None:
    configuration = task.specialization.configuration
    cache_hits: list[bool] = []
    triton.knobs.compilation.listener = lambda *, cache_hit, **_: cache_hits.append(cache_hit)
    try:
        start = _cpu_s()
        kernel = task.specialization.compile(compute_capability_of(task.architecture))
        spent_s = _cpu_s() - start
        compile_s = _compile_s(kernel.hash, None if any(cache_hits) else spent_s)
        target.write_bytes(kernel.asm["cubin"])
    except Exception as error:  # that there is no code for this GPU is an answer too
        writer.send(_failed(task.architecture, task.function, configuration, repr(error)))
        return
    writer.send(
        CompiledConfiguration(
            architecture=task.architecture,
            function=task.function,
            configuration=configuration,
            cubin=target.name,
            shared_bytes=kernel.metadata.shared,
            compile_s=compile_s,
        )
    )


def _compile_s(code: str, spent_s: float | None) -> float | None:
    """What compiling this code took: just now, or when it was compiled, if that is known."""
    kept = Path(triton.knobs.cache.dir) / f"{code}.compile_s"
    if spent_s is None:
        return float(kept.read_text()) if kept.exists() else None
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text(str(spent_s))
    return spent_s


def _cpu_s() -> float:
    """Of this process and of those it has waited for, ptxas among them."""
    return sum(os.times()[:4])


def _failed(architecture: str, function: str, configuration: str, reason: str) -> CompiledConfiguration:
    return CompiledConfiguration(
        architecture=architecture, function=function, configuration=configuration, reason=reason[:_REASON_LENGTH]
    )


def _write(facts: TextIO, compiled: CompiledConfiguration) -> None:
    print(json.dumps(asdict(compiled)), file=facts)


if __name__ == "__main__":
    main(Path(sys.argv[1]), [(name, its) for name, _, its in (pair.partition(":") for pair in sys.argv[2:])])

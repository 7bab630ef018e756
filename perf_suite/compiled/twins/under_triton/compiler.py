"""Compile Triton twins: `python -m perf_suite.compiled.twins.under_triton.compiler FOLDER FUNCTION:ARCHITECTURE...`.

Started by twins/__init__.py. Leaves in FOLDER a cubin for each configuration of each function and architecture, and
what.jsonl, which says what is what. Each compilation has a process of its own: Triton's passes end the process where
they meet what they do not expect. How long one took is kept in Triton's cache, so that nothing is compiled again for
its time alone.
"""

import contextlib
import functools
import importlib
import json
import os
import sys
from collections.abc import Collection
from dataclasses import asdict
from pathlib import Path

import torch
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from warpbench.compiled.architectures import compute_capability_of
from warpbench.operators import make_inputs, prepare
from warpbench.prepared import UnavailableError

from ...watched_kernels import watched_operators
from .. import FACTS, PROGRESS, CompiledConfiguration
from ..facts_digest import workloads_that_call
from ..forked import NoAnswerError, each_forked
from .pretended_gpu import Specialization, pretended_gpu

_REASON_LENGTH = 300


def main(folder: Path, wanted: Collection[tuple[str, str]]) -> None:
    """Compile the given (function, architecture) pairs."""
    _load()
    questions = [
        (operator, architecture)
        for architecture in dict.fromkeys(architecture for _, architecture in wanted)
        for operator, watched in watched_operators().items()
        if any((function, architecture) in wanted for function in watched.twins)
    ]
    tasks: list[tuple[str, Specialization]] = []
    with (folder / FACTS).open("w", buffering=1) as facts:

        def write(compiled: CompiledConfiguration) -> None:
            print(json.dumps(asdict(compiled)), file=facts)

        for index, found in each_forked([functools.partial(_launched, *question) for question in questions]):
            operator, architecture = questions[index]
            if isinstance(found, NoAnswerError):  # a twin may refuse this GPU, or be older than today's workloads
                for function in watched_operators()[operator].twins:
                    write(_failed(architecture, function, "", found))
            else:
                tasks += [(architecture, each) for each in found if (each.function, architecture) in wanted]
        calls = [functools.partial(_compiled, *task, folder / f"{index}.cubin") for index, task in enumerate(tasks)]
        for done, (index, compiled) in enumerate(each_forked(calls), start=1):
            _report(done, len(calls))
            architecture, task = tasks[index]
            if isinstance(compiled, NoAnswerError):  # that there is no code for this GPU is an answer too
                write(_failed(architecture, task.function, task.configuration, compiled))
            else:
                write(compiled)


def _report(done: int, total: int) -> None:
    """Write the progress into asv's environment, for `make run` (ci/make_run/build_progress.py)."""
    if folder := os.environ.get("ASV_ENV_DIR"):
        Path(folder, PROGRESS).write_text(f"{done} {total}\n")


def _load() -> None:
    """What each process needs, and what Triton does once in a process, so that it is no part of a compile time."""
    for operator in watched_operators():
        with contextlib.suppress(ImportError):
            importlib.import_module(f"warpwatch.kernels.triton.{operator}")
    triton.compile(ASTSource(_nothing, {"ptr": "*i32"}, {}, {}), target=GPUTarget("cuda", 90, 32))


@triton.jit
def _nothing(ptr):  # type: ignore[no-untyped-def]
    """ptr[0] = 0."""
    tl.store(ptr, 0)


def _launched(operator: str, architecture: str) -> list[Specialization]:
    """Each configuration that the catalogue's workloads lead to; of its specializations the first.

    Workloads that this GPU cannot do are passed over. Raises UnavailableError if it can do none.
    """
    refusals = []
    with pretended_gpu(compute_capability_of(architecture)) as launches:
        for workload in workloads_that_call(operator):
            try:
                prepare(workload, "triton", make_inputs(workload, torch.Generator())).run()
            except UnavailableError as refusal:
                refusals.append(refusal)
    if refusals and not launches:
        raise refusals[0]
    first: dict[tuple[str, str], Specialization] = {}
    for launch in launches:
        first.setdefault((launch.function, launch.configuration), launch)
    return list(first.values())


def _compiled(architecture: str, task: Specialization, target: Path) -> CompiledConfiguration:
    cache_hits: list[bool] = []
    triton.knobs.compilation.listener = lambda *, cache_hit, **_: cache_hits.append(cache_hit)
    start = _cpu_s()
    kernel = task.compile(compute_capability_of(architecture))
    spent_s = _cpu_s() - start
    target.write_bytes(kernel.asm["cubin"])
    return CompiledConfiguration(
        architecture=architecture,
        function=task.function,
        configuration=task.configuration,
        cubin=target.name,
        shared_bytes=kernel.metadata.shared,
        compile_s=_compile_s(kernel.hash, None if any(cache_hits) else spent_s),
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


def _failed(architecture: str, function: str, configuration: str, error: NoAnswerError) -> CompiledConfiguration:
    return CompiledConfiguration(
        architecture=architecture,
        function=function,
        configuration=configuration,
        reason=str(error)[:_REASON_LENGTH],
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), [(name, its) for name, _, its in (pair.partition(":") for pair in sys.argv[2:])])

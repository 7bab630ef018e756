"""Read the commit's compiled code once, and write its records. No torch here."""

import datetime
import os
import platform
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from warpbench import processor
from warpbench.compiled.code_metrics import Combination, ReadCode, compiled_record
from warpbench.compiled.cuda_binaries import NoToolsError, find_tools
from warpbench.compiled.machine_code import KernelCode, read_machine_code
from warpbench.jobs import Chosen, selection_wanted
from warpbench.records import CompiledRecord, RunRecord
from warpbench.spool import Spool

from .installed_kernels import NoKernelsError, compiled_sources, library
from .twins import compile_twins
from .watched_kernels import ARCHITECTURES, operator_of, watched_operators


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """The built extension as a whole, or why nothing is known of it."""

    compile_s: float = 0.0  # CPU time of all CUDA sources
    size_bytes: int = 0
    why_not: str = ""


def read_library() -> Library:
    """Size of the installed commit's extension, and what compiling its CUDA sources took."""
    try:
        size, sources = library().stat().st_size, compiled_sources()
    except NoKernelsError as error:
        return Library(why_not=str(error))
    times = [source.compile_s for source in sources.values() if source.compile_s is not None]
    if not sources or len(times) < len(sources):
        return Library(why_not=f"the build recorded the compile time of {len(times)} of {len(sources)} sources")
    return Library(compile_s=sum(times), size_bytes=size)


def read_kernels(benchmark: str) -> ReadCode:
    """The watched CUDA kernels of the installed commit, by (kernel, architecture).

    Kernels and architectures that asv was not asked for are not read. Raises CalledProcessError if the library cannot
    be read.
    """
    chosen = _chosen(benchmark)
    asked = None if chosen is None else chosen.keys()
    kernels = None if asked is None else {kernel for kernel, _ in asked}
    architectures = [name for name in ARCHITECTURES if asked is None or any(name == each for _, each in asked)]
    try:
        tools = find_tools()
        codes = read_machine_code(
            library(),
            tools,
            architectures,
            is_wanted=lambda kernel: operator_of(kernel) is not None and (kernels is None or kernel in kernels),
        )
    except (NoKernelsError, NoToolsError) as error:
        return _nothing(str(error))
    _record({"cuobjdump": tools.version()}, (_compiled(benchmark, "warpwatch", code) for code in codes))
    return ReadCode(
        found={(code.kernel, code.architecture): code for code in codes},
        unavailable={(): "this commit's library has no such kernel for this architecture"},
    )


def read_compile_times() -> ReadCode:
    """CPU time of compiling each CUDA source of the installed commit for all architectures, by (source,)."""
    try:
        sources = compiled_sources()
    except NoKernelsError as error:
        return _nothing(str(error))
    compile_s: dict[Combination, float | None] = {(name,): source.compile_s for name, source in sources.items()}
    unavailable: dict[Combination, str] = {(): "this commit's build has no such source"}
    not_recorded = "the build of this commit did not record it"
    unavailable |= {name: not_recorded for name, value in compile_s.items() if value is None}
    return ReadCode(found={}, compile_s=compile_s, unavailable=unavailable)


def read_twins(benchmark: str) -> ReadCode:
    """The Triton twins, compiled for the watched architectures, by (function, architecture).

    What asv was not asked for is not compiled.
    """
    chosen = _chosen(benchmark)
    twins = compile_twins(
        [
            (function, architecture)
            for watched in watched_operators().values()
            for function in watched.twins
            for architecture in ARCHITECTURES
            if chosen is None or (function, architecture) in chosen
        ]
    )
    compiled = {(twin.code.kernel, twin.code.architecture): twin for twin in twins.compiled}
    _record(twins.software, (_compiled(benchmark, "triton", twin.code, twin.compile_s) for twin in compiled.values()))
    return ReadCode(
        found={key: twin.code for key, twin in compiled.items()},
        compile_s={key: twin.compile_s for key, twin in compiled.items()},
        unavailable=twins.unavailable,
    )


def _chosen(benchmark: str) -> Chosen | None:
    """The selection of a benchmark that asv runs; None without a selection, which is everything."""
    selection = selection_wanted()
    return None if selection is None else selection.chosen.get(benchmark, {})


def _compiled(benchmark: str, implementation: str, code: KernelCode, compile_s: float | None = None) -> CompiledRecord:
    operator = operator_of(code.kernel)
    assert operator is not None, "only watched kernels are read"
    return compiled_record(
        code, benchmark=benchmark, operator=operator, implementation=implementation, compile_s=compile_s
    )


def _record(software: Mapping[str, str], records: Iterable[CompiledRecord]) -> None:
    run = uuid.uuid4().hex
    Spool(run).append(
        RunRecord(
            run=run,
            commit=os.environ.get("ASV_COMMIT", ""),
            environment=os.environ.get("ASV_ENV_NAME", ""),
            started_at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            device="cpu",
            gpu=None,
            cpu=processor.describe(threads=None),
            software={"python": platform.python_version(), **software},
            ceilings=None,
        ),
        *(replace(record, run=run) for record in records),
    )


def _nothing(reason: str) -> ReadCode:
    return ReadCode(found={}, unavailable={(): reason})

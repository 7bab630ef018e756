"""`warpbench profile WORKLOAD`: why a kernel takes the time it takes, by NVIDIA's profilers."""

from __future__ import annotations

import argparse
import difflib
import sys
import uuid
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from ..profiling import nsight_compute, nsight_systems, result_file
from ..profiling.profile_record import profile_record
from ..profiling.result_file import NoResultFileError, ResultFile
from ..profiling.table import kernel_table, traffic_table
from ..profiling.watched_call import Call, NotProfiledError, ProfilerError, find_tool
from ..project import project_here
from ..records import ProfileRecord, RunRecord
from ..workload import ANY_DEVICE, Workload

if TYPE_CHECKING:  # asv imports every module of its benchmark folder, also where rich is missing
    from rich.console import Console

_TIMELINE_CALLS = 10
_PIPE_WIDTH = 140  # columns where the output is no terminal


def add_parser(commands: argparse._SubParsersAction) -> None:
    """Offer the sub-command."""
    parser = commands.add_parser(
        "profile",
        help="profile a workload with Nsight Compute, or record its timeline with Nsight Systems",
        description="Profile one call of each implementation with Nsight Compute, print what explains its time, and "
        "store the counters with asv's results of the installed kernels. Some 10 s an implementation.",
    )
    parser.add_argument(
        "workload",
        metavar="WORKLOAD",
        help="operator/workload, say rope/cuda-fp16-b8-h32-s2048-d128; an operator alone is all it has on the GPU",
    )
    parser.add_argument(
        "-i", "--implementation", action="append", metavar="NAME", help="only this one; may be given several times"
    )
    parser.add_argument("--nsys", action="store_true", help="record a timeline of ten calls instead")
    parser.add_argument(
        "--export",
        type=Path,
        metavar="FOLDER",
        help="leave reports for Nsight Compute's GUI there; with --nsys, the folder of the timelines (default: here)",
    )
    parser.add_argument(
        "--into", type=Path, metavar="CONTEXT_FILE", help="store in this file; it is made if there is none"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Profile, print, store. Exit status 2: nothing can be profiled here; 1: some implementation could not be."""
    calls = _calls(arguments.workload, arguments.implementation or (), _TIMELINE_CALLS if arguments.nsys else 1)
    try:
        missed = _timelines(calls, arguments.export or Path()) if arguments.nsys else _profiles(calls, arguments)
    except (ProfilerError, NoResultFileError) as error:
        _refuse(str(error))
    sys.exit(1 if missed else 0)


def _profiles(calls: Sequence[Call], arguments: argparse.Namespace) -> int:
    """How many calls could not be profiled."""
    tool = find_tool("ncu")
    profiler = nsight_compute.version(tool)
    into = result_file.named(arguments.into, _installed_commits()) if arguments.into else None
    console = _console()
    machine: RunRecord | None = None
    profiles: list[tuple[Workload, ProfileRecord]] = []
    for call in calls:
        with console.status(f"profiling {_title(call)}"):
            try:
                seen = nsight_compute.profile(tool, call, arguments.export)
            except NotProfiledError as error:
                console.print(f"{_title(call)} not profiled: {error}", highlight=False, markup=False)
                continue
        machine = machine or seen.report.run
        record = profile_record(
            call.run, call.benchmark, call.workload, call.implementation, profiler, seen.report.backend, seen.kernels
        )
        profiles.append((call.workload, record))
    if machine is not None:
        _print_tables(console, machine, profiles)
        _store(console, into, machine, [record for _, record in profiles])
    return len(calls) - len(profiles)


def _timelines(calls: Sequence[Call], folder: Path) -> int:
    """How many calls could not be recorded."""
    tool = find_tool("nsys")
    console = _console()
    recorded = 0
    for call in calls:
        with console.status(f"recording {_title(call)}"):
            try:
                file = nsight_systems.record_timeline(tool, call, folder)
            except NotProfiledError as error:
                console.print(f"{_title(call)} not recorded: {error}", highlight=False, markup=False)
                continue
        recorded += 1
        note = ""
        if file.suffix == nsight_systems.UNCONVERTED:
            note = " (nsys could not convert it here; Nsight Systems' GUI imports it)"
        console.print(f"{file}{note}", highlight=False, markup=False, soft_wrap=True)
    return len(calls) - recorded


def _calls(name: str, implementations: Sequence[str], count: int) -> list[Call]:
    """What to profile, in order; ends the program with the names there are if the catalogue has no such."""
    run = uuid.uuid4().hex
    benchmark = next(
        (asv_name for asv_name, kind in project_here().by_asv_name.items() if kind.operator == name.partition("/")[0]),
        "",
    )
    calls = []
    for workload in _workloads(name):
        unknown = set(implementations).difference(workload.implementations)
        if unknown:
            _refuse(
                f"{workload.name} has no implementation {unknown.pop()}; it has {', '.join(workload.implementations)}"
            )
        wanted = implementations or workload.implementations
        calls += [
            Call(benchmark=benchmark, workload=workload, implementation=each, run=run, calls=count) for each in wanted
        ]
    return calls


def _workloads(name: str) -> list[Workload]:
    operator, _, row = name.partition("/")
    workloads = [_on_gpu(workload) for workload in project_here().operator(operator).workloads()]
    on_gpu = [workload for workload in workloads if workload.device == "cuda"]
    if not row:
        return on_gpu
    for workload in workloads:
        if workload.name == row:
            if workload.device != "cuda":
                gpu_rows = ", ".join(other.name for other in on_gpu)
                _refuse(
                    f"{row} runs on the CPU, and NVIDIA's profilers watch GPUs; {operator} has on the GPU: {gpu_rows}"
                )
            return [workload]
    names = [workload.name for workload in on_gpu]
    like = difflib.get_close_matches(row, names, n=1)
    _refuse(
        f"no workload {row!r} of {operator}; " + (f"did you mean {like[0]}?" if like else f"it has {', '.join(names)}")
    )


def _on_gpu(workload: Workload) -> Workload:
    return replace(workload, device="cuda") if workload.device == ANY_DEVICE else workload


def _print_tables(console: Console, machine: RunRecord, profiles: Sequence[tuple[Workload, ProfileRecord]]) -> None:
    gpu = machine.gpu.name if machine.gpu else machine.device
    console.print(f"{gpu}, {profiles[0][1].profiler}", highlight=False)
    for workload in dict.fromkeys(workload.name for workload, _ in profiles):
        rows = [(row, record) for row, record in profiles if row.name == workload]
        console.print(traffic_table(rows[0][0], [record for _, record in rows]))
        console.print(kernel_table([record for _, record in rows]))


def _store(console: Console, into: ResultFile | None, machine: RunRecord, profiles: Sequence[ProfileRecord]) -> None:
    """Stores profiles; a late failure is printed and no error, since the profile is on the screen."""
    project = project_here()
    try:
        file = into or result_file.of_results(result_file.installed_commits(project), project.results)
    except NoResultFileError as error:
        console.print(f"Not stored: {error}", highlight=False, markup=False, soft_wrap=True)
        return
    result_file.append(file, machine, profiles)
    console.print(f"Stored in {file.path}", highlight=False, markup=False, soft_wrap=True)


def _installed_commits() -> tuple[str, ...]:
    """The commits of the installed kernels; none if unknown, since the caller named the file."""
    try:
        return result_file.installed_commits(project_here())
    except NoResultFileError:
        return ()


def _title(call: Call) -> str:
    return f"{call.workload.operator}/{call.workload.name} {call.implementation}"


def _console() -> Console:
    from rich.console import Console

    console = Console()
    if not console.is_terminal:
        console.width = _PIPE_WIDTH
    return console


def _refuse(sentence: str) -> NoReturn:
    print(f"profile: {sentence}", file=sys.stderr)
    sys.exit(2)

"""Find a profiler, run `call.py` under it and hear what came of it. No torch here."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..child_process import python_running
from ..protocol import Job, jobs_to_json
from ..records import RunRecord, from_line, to_line
from ..workload import Workload

_CALL = "warpbench.profiling.call"
_LIMIT_S = 600.0  # torch from a cold disk, torch.compile, and a long call replayed some forty times
_LAST_WORDS = 300  # characters of the output kept as a reason


class NotProfiledError(Exception):
    """This implementation could not be profiled, another may be; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """What to profile."""

    benchmark: str  # asv's name of the class
    workload: Workload
    implementation: str
    run: str
    calls: int = 1

    @property
    def file_stem(self) -> str:
        """A name for the profiler's own files."""
        return f"{self.workload.operator}-{self.workload.name}-{self.implementation}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What is left of the profiler and the process under it."""

    report: CallReport | None  # None if the process did not get that far
    output: str

    def answered(self) -> CallReport:
        """The report of calls that were made and right. Raises NotProfiledError with the reason if they were not."""
        if self.report is None:
            raise NotProfiledError(f"the process ended before its calls were made: {self.last_words()}")
        if self.report.reason:
            raise NotProfiledError(self.report.reason)
        return self.report

    def last_words(self) -> str:
        """The profiler's errors if it names any, else the end of the output."""
        errors = [line for line in self.output.splitlines() if line.startswith("==ERROR==")]
        return ("; ".join(errors) or self.output.strip())[-_LAST_WORDS:] or "it said nothing"


def run_under(profiler: Sequence[str], call: Call, environment: Mapping[str, str] | None = None) -> Ran:
    """Run the call under a profiler's command line. Raises NotProfiledError if that does not end."""
    with tempfile.TemporaryDirectory(prefix="warpbench_profile_") as folder:
        path = Path(folder) / "report.jsonl"
        command = [
            *profiler,
            *python_running(_CALL, under_another_program=True),
            jobs_to_json([Job(benchmark=call.benchmark, workload=call.workload, implementation=call.implementation)]),
        ]
        output = _output([*command, call.run, str(path), "--calls", str(call.calls)], environment)
        return Ran(report=read_report(path) if path.exists() else None, output=output)


def _output(command: list[str], environment: Mapping[str, str] | None) -> str:
    with subprocess.Popen(
        command,
        env={**os.environ, **(environment or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,  # a group of its own: a profiler that is killed leaves its target running
    ) as process:
        try:
            return process.communicate(timeout=_LIMIT_S)[0]
        except subprocess.TimeoutExpired:
            raise NotProfiledError(f"no end after {_LIMIT_S:g} s; it was killed") from None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallReport:
    """The machine, and how the calls went."""

    run: RunRecord
    reason: str | None = None  # why there is nothing to profile; None if the calls were made and right
    backend: str | None = None  # the library kernel family taken, where the implementation chooses one


def write_report(report: CallReport, path: Path) -> None:
    """The run's line, then the rest as one JSON object."""
    path.write_text(f"{to_line(report.run)}\n{json.dumps({'reason': report.reason, 'backend': report.backend})}\n")


def read_report(path: Path) -> CallReport:
    """The inverse of write_report. Raises ValueError if the file holds no run."""
    first, second = path.read_text().splitlines()
    run = from_line(first)
    if not isinstance(run, RunRecord):
        raise ValueError(f"wanted a run record in {path}, got {first[:80]!r}")
    return CallReport(run=run, **json.loads(second))


_FOLDERS = {
    "ncu": ("usr/local/cuda/bin", "usr/local/cuda-*/bin", "opt/nvidia/nsight-compute/*"),
    "nsys": (
        "usr/local/cuda/bin",
        "usr/local/cuda-*/bin",
        "opt/nvidia/nsight-systems/*/bin",
        "opt/nvidia/nsight-systems/*/target-linux-x64",
        "opt/nvidia/nsight-compute/*/host/target-linux-x64",  # Nsight Compute brings one
    ),
}
_NAMES = {"ncu": "Nsight Compute", "nsys": "Nsight Systems"}


class ProfilerError(Exception):
    """No profile can be made here; the message says what to do about it."""


def find_tool(name: str, root: Path = Path("/")) -> Path:
    """`ncu` or `nsys`: the one on PATH, else the newest under CUDA's or its own folder. Raises ProfilerError."""
    found = shutil.which(name)
    if found:
        return Path(found)
    for folder in _FOLDERS[name]:
        for tool in sorted(root.glob(f"{folder}/{name}"), key=_version, reverse=True):
            if tool.is_file():
                return tool
    places = ", ".join(f"/{folder}" for folder in _FOLDERS[name])
    raise ProfilerError(
        f"{_NAMES[name]} ({name}) is neither on PATH nor in {places}; it comes with the CUDA toolkit, or from "
        f"https://developer.nvidia.com/{_NAMES[name].lower().replace(' ', '-')}"
    )


def _version(tool: Path) -> tuple[int, ...]:
    """The numbers in its path, so that 2025.10 is newer than 2025.3."""
    return tuple(map(int, re.findall(r"\d+", str(tool))))

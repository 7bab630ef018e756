"""Nsight Compute: the counters of every kernel of one call. No torch here.

Caches are flushed before each kernel and again before each replay of it, as NVBench flushes the L2 before a sample; a
kernel that would find its predecessor's output in the L2 does not find it here. Clocks are left as they are.
"""

from __future__ import annotations

import csv
import math
import os
import re
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from . import counters
from .watched_call import Call, CallReport, NotProfiledError, ProfilerError, Ran, run_under

_OPTIONS = (
    *("--profile-from-start", "off"),
    *("--target-processes", "application-only"),
    *("--cache-control", "all"),
    *("--clock-control", "none"),
    *("--replay-mode", "kernel"),
)
_FOR_READERS = ("--set", "detailed")  # what the GUI's pages are made of; costs another dozen replays
_PERMISSION = (
    "Nsight Compute may not read this GPU's performance counters (ERR_NVGPUCTRPERM). Run it as root; or let everyone: "
    "put `options nvidia NVreg_RestrictProfilingToAdminUsers=0` into /etc/modprobe.d/nvidia-profiling.conf on the host "
    "and reboot; or start the container with --cap-add SYS_ADMIN"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Profiled:
    """A call's kernels, and the process that made it."""

    report: CallReport
    kernels: tuple[KernelRow, ...]


def profile(tool: Path, call: Call, keep: Path | None = None) -> Profiled:
    """Profile one call; with `keep`, leave a report for Nsight Compute's GUI in that folder.

    Raises NotProfiledError if this call cannot be profiled, ProfilerError if none can.
    """
    with tempfile.TemporaryDirectory(prefix="warpbench_ncu_") as folder:
        stem = (keep or Path(folder)) / call.file_stem
        stem.parent.mkdir(parents=True, exist_ok=True)
        command = [str(tool), *_OPTIONS, *(_FOR_READERS if keep else ()), "--force-overwrite", "--export", str(stem)]
        asked = list(counters.ASKED)
        while True:
            ran = run_under([*command, "--metrics", ",".join(asked)], call)
            refused = refused_counters(ran.output) & set(asked)
            if not refused:
                break
            asked = [name for name in asked if name not in refused]
        return Profiled(report=_answered(ran), kernels=_kernels(tool, Path(f"{stem}.ncu-rep"), ran))


def version(tool: Path) -> str:
    """ "Nsight Compute 2025.3.1"."""
    said = subprocess.run([str(tool), "--version"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"Version (\d+(?:\.\d+){1,2})", said)
    return f"Nsight Compute {found.group(1)}" if found else "Nsight Compute"


def refused_counters(output: str) -> set[str]:
    """The counters that made Nsight Compute give up; most versions leave out what they do not know."""
    return set(re.findall(r"^==ERROR== Failed to find metric (\S+)", output, flags=re.MULTILINE))


def _answered(ran: Ran) -> CallReport:
    if "ERR_NVGPUCTRPERM" in ran.output:
        raise ProfilerError(_PERMISSION)
    return ran.answered()


def _kernels(tool: Path, report: Path, ran: Ran) -> tuple[KernelRow, ...]:
    if not report.exists():
        raise NotProfiledError(f"Nsight Compute wrote no report: {ran.last_words()}")
    page = subprocess.run(
        [str(tool), "--import", str(report), "--csv", "--page", "raw", "--print-units", "base"],
        env={**os.environ, "LC_ALL": "C"},  # no separators between the thousands
        capture_output=True,
        text=True,
        check=False,
    )
    kernels = read_raw_page(page.stdout)
    if not kernels:
        raise NotProfiledError(
            f"Nsight Compute saw no kernel: {(page.stderr or page.stdout or ran.output).strip()[-300:]}"
        )
    return kernels


_KERNEL = "Kernel Name"


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelRow:
    """One kernel's numbers, by Nsight Compute's own names and in the units of its CSV."""

    signature: str  # as Nsight Compute demangles it
    counters: Mapping[str, float]
    units: Mapping[str, str]


def read_raw_page(text: str) -> tuple[KernelRow, ...]:
    """The kernels in the order they ran, none if the text holds no table; what is no number has no entry.

    Nsight Compute writes its own lines before and behind the table. Raises ValueError for another of its pages.
    """
    lines = text.splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        return ()
    names, units, *rows = list(csv.reader(lines[start:]))
    if _KERNEL not in names or "Metric Name" in names:
        raise ValueError(f"wanted Nsight Compute's raw page (--page raw), got columns {', '.join(names[:15])}")
    return tuple(
        KernelRow(
            signature=row[names.index(_KERNEL)],
            counters={name: float(value) for name, value in zip(names, row, strict=True) if _is_number(value)},
            units=dict(zip(names, units, strict=True)),
        )
        for row in rows
        if len(row) == len(names)
    )


def _is_number(value: str) -> bool:
    try:
        return math.isfinite(float(value))
    except ValueError:  # n/a, or a word
        return False

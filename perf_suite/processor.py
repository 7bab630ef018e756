"""The CPU's own name and the cores we may use. No torch here."""

import os
import platform
from pathlib import Path

from .records import Cpu


def describe(*, threads: int | None) -> Cpu:
    """This machine's processor; `threads` is what a measurement is given, None where nothing is timed."""
    return Cpu(model=_model(), cores=len(os.sched_getaffinity(0)), threads=threads)


def _model() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()

"""The CPU's own name, the cores we may use and their clock. No torch here."""

import os
import platform
from pathlib import Path

from .records import Cpu


def describe(*, threads: int | None) -> Cpu:
    """This machine's processor; `threads` is what a measurement is given, None where nothing is timed."""
    models, clocks_mhz = _field("model name"), _field("cpu MHz")
    return Cpu(
        model=models[0] if models else platform.processor() or platform.machine(),
        cores=len(os.sched_getaffinity(0)),
        threads=threads,
        clock_hz=max(map(float, clocks_mhz)) * 1e6 if clocks_mhz else None,
    )


def _field(name: str) -> list[str]:
    """What Linux says under a name, of each core; nothing elsewhere, and on some architectures."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    return [line.partition(":")[2].strip() for line in lines if line.startswith(name)]

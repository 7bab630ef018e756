"""A CPU's ceilings, timed as its rows are: one thread, and the CPU time of this process."""

import datetime
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch.utils.benchmark import Timer

from .. import context, processor
from ..timing.cpu import THREADS
from .ceiling_file import BANDWIDTH, Calibration, Ceiling, cpu_key

_CACHE_MULTIPLE = 4  # of the last-level cache, each array
_SMALLEST_ARRAY, _LARGEST_ARRAY = 64 << 20, 512 << 20  # bytes
_MATMUL = 1024
_MEASURE_S = 1.0


def calibrate(on_step: Callable[[str], None] = lambda name: None) -> Calibration:
    """Measure one thread of this CPU; `on_step` hears the name of each ceiling before it is measured. Some 5 s."""
    cpu = processor.describe(threads=THREADS)
    on_step(BANDWIDTH)
    ceilings = [_bandwidth()]
    on_step("fp32")
    ceilings.append(_fp32())
    return Calibration(
        uuid=cpu_key(cpu),
        name=cpu.model,
        measured_at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        driver=None,
        power_limit_w=None,
        software=context.software(),
        ceilings=tuple(ceilings),
        left_out={},
        note=f"of {THREADS} thread, in its own CPU time",
    )


def _bandwidth() -> Ceiling:
    """The better of STREAM's triad and copy, in fp32, over arrays beyond the last-level cache."""
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    wanted = max(_SMALLEST_ARRAY, _CACHE_MULTIPLE * _last_level_cache_bytes())
    array = min(wanted, _LARGEST_ARRAY, free // 8)
    a, b, c = (torch.randn(array // 4) for _ in range(3))
    triad = _ceiling(
        BANDWIDTH, 3 * array, lambda: torch.add(a, b, alpha=0.5, out=c), f"triad over 3 x {array >> 20} MiB"
    )
    copy = _ceiling(BANDWIDTH, 2 * array, lambda: c.copy_(a), f"copy over 2 x {array >> 20} MiB")
    return max(triad, copy, key=lambda ceiling: ceiling.rate)


def _fp32() -> Ceiling:
    a, b = torch.randn(_MATMUL, _MATMUL), torch.randn(_MATMUL, _MATMUL)
    out = torch.empty(_MATMUL, _MATMUL)
    method = f"matmul of {_MATMUL} x {_MATMUL} x {_MATMUL}"
    return _ceiling("fp32", 2 * _MATMUL**3, lambda: torch.mm(a, b, out=out), method)


def _ceiling(name: str, work: int, run: Callable[[], torch.Tensor], method: str) -> Ceiling:
    run()
    timer = Timer("run()", globals={"run": run}, num_threads=THREADS, timer=time.process_time)
    samples = timer.blocked_autorange(min_run_time=_MEASURE_S).times
    return Ceiling(
        name=name,
        rate=work / statistics.median(samples),
        method=method,
        spread=statistics.stdev(samples) / statistics.fmean(samples),
        settled=True,
    )


def _last_level_cache_bytes() -> int:
    """Of the largest cache that Linux reports; 0 where it reports none."""
    sizes = Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")
    return max((int(size.read_text().strip().removesuffix("K")) << 10 for size in sizes), default=0)

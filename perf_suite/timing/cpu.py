"""CPU stopwatch: torch.utils.benchmark, which fixes the number of threads and warms up.

One thread, and the CPU time of this process instead of the clock on the wall. On a shared machine of few cores a
barrier between threads, or a slice given to somebody else, would measure the other tenants; what a change to the
kernel's own work costs shows all the same. Time asleep is not seen.
"""

import time
from collections.abc import Callable

import torch
from torch.utils.benchmark import Timer

from .timing import Timing

THREADS = 1
_NAME = "torch.utils.benchmark, CPU time"
_SAMPLE_S = 5e-3  # calls are grouped until a sample lasts this long
_SAMPLES = 150
_LONGEST_S = 2.0  # slow calls take fewer samples, but never fewer than _FEWEST
_FEWEST = 5


def sample_latency(run: Callable[[], torch.Tensor], *, quick: bool) -> Timing:
    """CPU seconds per call of `run`, a group of calls a sample, caches as the previous call left them."""
    timer = Timer("run()", globals={"run": run}, num_threads=THREADS, timer=time.process_time)
    call_s = timer.timeit(3).mean
    calls = max(1, round(_SAMPLE_S / call_s))
    call_s = timer.timeit(calls).mean  # the first estimate included cold caches
    calls = max(1, round(_SAMPLE_S / call_s))
    count = _FEWEST if quick else max(_FEWEST, min(_SAMPLES, int(_LONGEST_S / (calls * call_s))))
    samples = tuple(timer.timeit(calls).mean for _ in range(count))
    return Timing(samples_s=samples, sm_clock_hz=None, cache="warm", timer=_NAME)

"""CPU stopwatch: torch.utils.benchmark, which fixes the number of threads and warms up.

One thread, and the CPU time of this process instead of the clock on the wall. On a shared machine of few cores a
barrier between threads, or a slice given to somebody else, would measure the other tenants; what a change to the
kernel's own work costs shows all the same. Time asleep is not seen.
"""

import time

from torch.utils.benchmark import Timer

from ..output import Output
from ..samples import RECORDED_SAMPLES
from .timing import TimedCall, Timing

THREADS = 1
_NAME = "torch.utils.benchmark, CPU time"
_SAMPLE_S = 5e-3  # calls are grouped until a sample lasts this long
_LONGEST_S = 1.0  # slow calls take fewer samples, but never fewer than _FEWEST
_FEWEST = 5


def sample_latency(call: TimedCall, *, quick: bool, visits: int = 1) -> Timing:
    """CPU seconds per call, a group of calls a sample, caches as the previous call left them.

    Of several visits each takes as many samples, shorter ones.
    """
    kept: dict[str, Output] = {}

    def run() -> None:
        kept["out"] = call.run()

    timer = Timer("run()", globals={"run": run}, num_threads=THREADS, timer=time.process_time)
    call_s = timer.timeit(3).mean
    sample_s = _SAMPLE_S / visits
    calls = max(1, round(sample_s / call_s))
    call_s = timer.timeit(calls).mean  # the first estimate included cold caches
    calls = max(1, round(sample_s / call_s))
    count = _FEWEST if quick else max(_FEWEST, min(RECORDED_SAMPLES, int(_LONGEST_S / visits / (calls * call_s))))
    samples = []
    for _ in range(count):
        samples.append(timer.timeit(calls).mean)
        call.after(kept["out"])
    return Timing(
        samples_s=tuple(samples),
        calls_per_sample=calls,
        sm_clock_hz=None,
        sm_cycles=None,
        clock_over_time_hz=(),
        cache="warm",
        timer=_NAME,
    )

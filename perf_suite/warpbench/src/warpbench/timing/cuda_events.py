"""GPU stopwatch where NVBench is missing: CUDA events around one call, the L2 flushed before each."""

from collections.abc import Sequence

import torch

from ..samples import thinned
from .l2 import release_kept_lines
from .timing import TimedCall, Timing, TimingError

_SAMPLES = 200
_LONGEST_S = 2.0
_FEWEST = 5
_WARM_UP = 5
_L2_MULTIPLE = 2  # bytes written to flush, in L2 sizes


def sample_latency(calls: Sequence[TimedCall], *, quick: bool, visits: int = 1, hides_host: bool = True) -> Timing:
    """Seconds between two events around each call, in turn, on torch's current stream; a share of them on each visit.

    The flush before a call keeps the GPU busy while the host enqueues, which hides launch latency for all but
    operations of many kernels; NVBench's blocking kernel hides it for those too. Samples in which the flush was over
    before the call was enqueued are left out. Raises TimingError where most are. A call that synchronises with the host
    is timed with `hides_host=False`: the host's time is part of its latency.
    """
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    flush = torch.empty(_L2_MULTIPLE * max(properties.L2_cache_size, 1 << 24), dtype=torch.uint8, device="cuda")
    for call in calls:
        for _ in range(_WARM_UP):
            call.run()
    first, _ = _sample(calls[0], flush)
    count = _FEWEST if quick else max(_FEWEST, min(_SAMPLES, int(_LONGEST_S / max(first, 1e-6))) // visits)
    taken = [_sample(calls[index % len(calls)], flush) for index in range(count)]
    hidden = tuple(seconds for seconds, is_hidden in taken if is_hidden or not hides_host)
    if 2 * len(hidden) < count:
        raise TimingError(
            f"in {count - len(hidden)} of {count} samples the GPU waited for the host to enqueue the call, so they are "
            "not the kernels' latency; install cuda-bench, whose blocking kernel hides the host"
        )
    return Timing(
        samples_s=thinned(hidden),
        calls_per_sample=1,
        sm_clock_hz=None,
        sm_cycles=None,
        clock_over_time_hz=(),
        cache="cold",
        timer="cuda-events" if hides_host else "cuda-events, host time included",
    )


def _sample(call: TimedCall, flush: torch.Tensor) -> tuple[float, bool]:
    """Seconds, and whether the flush still ran when the whole call was enqueued."""
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    release_kept_lines()
    flush.zero_()
    start.record()
    out = call.run()
    end.record()
    is_hidden = not start.query()
    call.after(out)
    end.synchronize()
    milliseconds: float = start.elapsed_time(end)
    return milliseconds * 1e-3, is_hidden

"""GPU stopwatch where NVBench is missing: CUDA events around one call, the L2 flushed before each."""

from collections.abc import Callable

import torch

from .timing import Timing

_SAMPLES = 200
_LONGEST_S = 2.0
_FEWEST = 5
_WARM_UP = 5
_L2_MULTIPLE = 2  # bytes written to flush, in L2 sizes


def sample_latency(run: Callable[[], torch.Tensor], *, quick: bool) -> Timing:
    """Seconds between two events around each call.

    The flush before a call keeps the GPU busy while the host enqueues, which hides launch latency for all but
    operations of many kernels; NVBench's blocking kernel hides it for those too.
    """
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    flush = torch.empty(_L2_MULTIPLE * max(properties.L2_cache_size, 1 << 24), dtype=torch.uint8, device="cuda")
    for _ in range(_WARM_UP):
        run()
    first = _sample_s(run, flush)
    count = _FEWEST if quick else max(_FEWEST, min(_SAMPLES, int(_LONGEST_S / max(first, 1e-6))))
    samples = tuple(_sample_s(run, flush) for _ in range(count))
    return Timing(samples_s=samples, sm_clock_hz=None, cache="cold", timer="cuda-events")


def _sample_s(run: Callable[[], torch.Tensor], flush: torch.Tensor) -> float:
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    flush.zero_()
    start.record()
    run()
    end.record()
    end.synchronize()
    milliseconds: float = start.elapsed_time(end)
    return milliseconds * 1e-3

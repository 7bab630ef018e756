"""The stopwatch: samples of one call's latency, by the best instrument the machine has."""

from collections.abc import Callable

import torch

from . import cpu, cuda_events, nvbench
from .timing import Timing


def sample_latency(run: Callable[[], torch.Tensor], *, device: str, quick: bool) -> Timing:
    """Latency samples of `run`, which must be warm (compiled, autotuned, loaded).

    GPU: NVBench with the L2 flushed before each sample, or CUDA events where it is not installed.
    CPU: torch.utils.benchmark, caches warm. `quick` takes a handful of samples only, to see that it works.
    Raises TimingError if no sample could be taken under fair conditions.
    """
    if device == "cpu":
        return cpu.sample_latency(run, quick=quick)
    if nvbench.is_installed():
        return nvbench.sample_latency(run, quick=quick)
    return cuda_events.sample_latency(run, quick=quick)

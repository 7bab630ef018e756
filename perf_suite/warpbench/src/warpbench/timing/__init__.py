"""The stopwatch: samples of one call's latency, by the best instrument the machine has."""

from collections.abc import Callable, Sequence

from . import cpu, cuda_events, nvbench
from .timing import TimedCall, Timing


class Stopwatch:
    """GPU: NVBench with the L2 flushed before each sample, or CUDA events where it is not installed.
    CPU: torch.utils.benchmark, caches warm. `quick` takes a handful of samples only, to see that it works."""

    def __init__(self, *, device: str, quick: bool, uses_nvbench: bool = True) -> None:
        self._device = device
        self._quick = quick
        self._nvbench = nvbench.NVBench() if device == "cuda" and uses_nvbench and nvbench.is_installed() else None

    def for_each(self, count: int, body: Callable[[int], None]) -> None:
        """Call `body` with 0 to count - 1. Inside, `sample_latency` may be called; once in a process."""
        if self._nvbench is not None:
            self._nvbench.for_each(count, body)
            return
        for index in range(count):
            body(index)

    def sample_latency(self, calls: Sequence[TimedCall], *, visit: int = 0, visits: int = 1) -> Timing:
        """Latency samples of a call that is warm (compiled, autotuned, loaded), given once for each place of its data.

        They are spread over `visits`, of which this is number `visit`.
        Raises TimingError if no sample could be taken under fair conditions.
        """
        if self._device == "cuda" and not calls[0].capturable:  # NVBench's blocking kernel would never let it go on
            return cuda_events.sample_latency(calls, quick=self._quick, visits=visits, hides_host=False)
        if self._nvbench is not None:
            return self._nvbench.sample_latency(calls, quick=self._quick, visit=visit, visits=visits)
        if self._device == "cuda":
            return cuda_events.sample_latency(calls, quick=self._quick, visits=visits)
        return cpu.sample_latency(calls[0], quick=self._quick, visits=visits)

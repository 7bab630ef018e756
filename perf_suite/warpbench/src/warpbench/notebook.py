"""`warpbench.measure`: one function timed in this process, for notebooks and pytest."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from . import context, gate
from .output import Expected, Output, parts
from .timing import Stopwatch
from .timing.timing import TimedCall

if TYPE_CHECKING:
    from .timing.timing import Timing

_TOLERANCE = {
    torch.float64: 1e-12,
    torch.float32: 1e-5,
    torch.float16: 2e-3,
    torch.bfloat16: 1.6e-2,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Latency of a function's calls, in seconds."""

    samples_s: tuple[float, ...]
    latency_s: float  # median
    relative_error: float | None  # None without a reference
    timer: str
    cache: str  # "cold" or "warm"

    def __str__(self) -> str:
        error = "no correctness gate" if self.relative_error is None else f"error {self.relative_error:.1e}"
        return (
            f"{self.latency_s * 1e6:.2f} µs ({len(self.samples_s)} samples, {self.cache} cache, {self.timer}; {error})"
        )


def measure(
    function: Callable[..., Output],
    *arguments: Any,
    reference: Callable[..., Expected] | None = None,
    tolerance: float | None = None,
    quick: bool = False,
    **keywords: Any,
) -> Measured:
    """Time `function(*arguments, **keywords)` behind the correctness gate.

    `reference` is called with the same arguments, floating-point tensors among them as float64 copies. The largest
    ||out - reference|| / ||reference|| allowed is `tolerance`, by default one that fits the output's dtype. On a GPU
    the L2 is flushed before each call, and CUDA events time it: NVBench runs once in a process, so it is asv's.
    Raises warpbench.gate.WrongResultError for a wrong result, TimingError where no fair sample could be taken.
    """
    inputs = _Given(arguments, keywords, reference)
    first = function(*arguments, **keywords)
    allowed = tolerance if tolerance is not None else max(_TOLERANCE.get(out.dtype, 1e-5) for out in parts(first))
    vector = gate.test_vector_of(inputs)
    watch = gate.Gate(lambda: function(*arguments, **keywords), inputs, (vector,), allowed)
    error = watch.check()
    device = context.device() if any(tensor.is_cuda for tensor in inputs.activations()) else "cpu"
    watch.begin_timing()
    call = TimedCall(run=lambda: function(*arguments, **keywords), after=watch.after_timed_call)
    timings: list[Timing] = []
    stopwatch = Stopwatch(device=device, quick=quick, uses_nvbench=False)
    stopwatch.for_each(1, lambda _: timings.append(stopwatch.sample_latency([call])))
    watch.check_timed()
    (timing,) = timings
    return Measured(
        samples_s=timing.samples_s,
        latency_s=statistics.median(timing.samples_s),
        relative_error=error,
        timer=timing.timer,
        cache=timing.cache,
    )


class _Given:
    """The caller's own arguments as inputs."""

    def __init__(
        self, arguments: tuple[Any, ...], keywords: dict[str, Any], reference: Callable[..., Expected] | None
    ) -> None:
        self._arguments, self._keywords, self._reference = arguments, keywords, reference

    def activations(self) -> tuple[torch.Tensor, ...]:
        """All tensors among the arguments."""
        values = (*self._arguments, *self._keywords.values())
        return tuple(value for value in values if isinstance(value, torch.Tensor))

    def expected(self) -> Expected:
        """The reference's output, None without one."""
        if self._reference is None:
            return None
        wide = [_widened(value) for value in self._arguments]
        return self._reference(*wide, **{name: _widened(value) for name, value in self._keywords.items()})


def _widened(value: Any) -> Any:
    return value.double() if isinstance(value, torch.Tensor) and value.is_floating_point() else value

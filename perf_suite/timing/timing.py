"""What a stopwatch returns."""

from dataclasses import dataclass

RECORDED_SAMPLES = 50  # a committed run stays under 1 MB


class TimingError(Exception):
    """No number may be taken, because the machine throttled or the instrument kept no sample."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Latency samples of one call, in the order taken."""

    samples_s: tuple[float, ...]
    sm_clock_hz: tuple[float, ...] | None  # per sample, where the instrument reads it
    cache: str  # "cold" or "warm"
    timer: str


def thinned(values: tuple[float, ...]) -> tuple[float, ...]:
    """Every n-th value, at most RECORDED_SAMPLES of them, spread over the whole measurement."""
    stride = -(-len(values) // RECORDED_SAMPLES)
    return values[:: max(stride, 1)]

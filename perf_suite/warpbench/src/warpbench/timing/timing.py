"""What a stopwatch is given and what it returns."""

from collections.abc import Callable
from dataclasses import dataclass

from ..output import Output


class TimingError(Exception):
    """No number may be taken, because the machine throttled or the instrument kept no sample."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedCall:
    """What is timed, and what is done after each timed call without being timed."""

    run: Callable[[], Output]
    after: Callable[[Output], None]
    capturable: bool = True  # False: it synchronises with the host, whose time counts then
    launches: int = 1  # kernels, copies and memsets a call, as far as they are known
    peak_memory_bytes: int = 0  # allocated at the worst moment of a call, over its inputs and output


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Latency samples of one call."""

    samples_s: tuple[float, ...]  # those that are recorded, each the mean of `calls_per_sample` calls
    calls_per_sample: int
    sm_clock_hz: tuple[float, ...] | None  # per sample, where the instrument reads it
    sm_cycles: float | None  # median of latency x clock
    clock_over_time_hz: tuple[float, ...]  # every call's, in the order they were made; empty where none is read
    cache: str  # "cold" or "warm"
    timer: str

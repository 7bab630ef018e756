"""How long a GPU takes for a call it is given again and again: a ceiling's stopwatch.

NVBench and the L2 flush of `timing/` measure how long one call takes after a pause. A ceiling is the opposite: what the
machine keeps up once it is warm. So the calls are enqueued back to back, always one batch ahead of the GPU, with a CUDA
event behind each batch; the time between two events holds neither a gap nor the host. Tensor-core work begins above
what the power limit allows for long (an H200 shows 788 TFLOP/s in a burst and keeps up 680), so nothing is counted
until the batches' times have settled. They follow the SM clock, which is reported with them where NVML has it; it
would be the poorer judge, for memory-bound work runs at any clock and the driver's reading is an average over the past.
"""

import itertools
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch

_BATCH_S = 20e-3
_WINDOW = 8  # batches whose median is compared with that of the eight before
_CHANGE = 0.003
_WARM_S = 0.5  # at least: a power limit takes a moment to bite
_SETTLE_S = 1.5  # at most; times that fall on are reported as such
_MEASURE_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sustained:
    """What was kept up."""

    call_s: float  # median over the batches
    spread: float  # standard deviation of the batches over their mean
    settled: bool
    sm_clock_hz: float | None


def sustained(calls: Sequence[Callable[[], object]]) -> Sustained:
    """Seconds per call of `calls`, which do equal work on different memory and are taken in turn.

    Each must keep the GPU busy for longer than the host takes to enqueue it, some 10 us. Takes 1.5 to 2.5 s.
    """
    batch = _calls_a_batch(calls)
    times = _batch_times(calls, batch)
    settled = _settle(times)
    measured: list[float] = []
    clocks: list[float | None] = []
    while sum(measured) < _MEASURE_S:
        measured.append(next(times))
        clocks.append(_sm_clock_hz())
    torch.cuda.synchronize()
    known = [clock for clock in clocks if clock is not None]
    return Sustained(
        call_s=statistics.median(measured) / batch,
        spread=statistics.stdev(measured) / statistics.fmean(measured),
        settled=settled,
        sm_clock_hz=statistics.median(known) if known else None,
    )


def _calls_a_batch(calls: Sequence[Callable[[], object]]) -> int:
    for call in calls:  # loads, and picks a kernel for each
        call()
    once = next(_batch_times(calls, len(calls))) / len(calls)
    return max(1, round(_BATCH_S / once))


def _batch_times(calls: Sequence[Callable[[], object]], batch: int) -> Iterator[float]:
    """Seconds of one batch after another, the following one already enqueued."""
    rotation = itertools.cycle(calls)

    def enqueue() -> torch.cuda.Event:
        for _ in range(batch):
            next(rotation)()
        return _event()

    before, after = _event(), enqueue()
    while True:
        following = enqueue()
        after.synchronize()
        yield before.elapsed_time(after) * 1e-3
        before, after = after, following


def _event() -> torch.cuda.Event:
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event


def _settle(times: Iterator[float]) -> bool:
    """Run until two neighbouring windows agree; whether they did in time."""
    seen: list[float] = []
    while sum(seen) < _SETTLE_S:
        seen.append(next(times))
        if sum(seen) >= _WARM_S and len(seen) >= 2 * _WINDOW:
            earlier = statistics.median(seen[-2 * _WINDOW : -_WINDOW])
            if abs(statistics.median(seen[-_WINDOW:]) / earlier - 1) < _CHANGE:
                return True
    return False


def _sm_clock_hz() -> float | None:
    try:
        import pynvml
    except ModuleNotFoundError:
        return None
    try:
        return torch.cuda.clock_rate() * 1e6
    except (pynvml.NVMLError, RuntimeError):  # no driver library, or a device that does not say
        return None

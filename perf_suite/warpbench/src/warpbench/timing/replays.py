"""Warm and steady latency: calls back to back in a CUDA graph, on one copy of the inputs or on several in turn.

Warm, inputs and weights are still in the L2: what a small kernel costs in the middle of a model's decode step, where
the data of the kernel before it is at hand and the host is out of the way. It matters where a call's bytes fit the L2.

Steady, each call has another copy of the inputs than the call before: what a kernel costs in a stream of work that goes
on. Data that the L2 cannot hold eight times over comes from DRAM, as it does cold; but no flush has filled the L2 with
lines that the timed call has to write back first, and no launch is waited for. Each copy's output stays until that
copy's turn comes again, so outputs rotate too.
"""

import itertools
from collections.abc import Callable, Sequence

import torch

from ..launches import Captured, capture
from ..output import Output
from .l2 import release_kept_lines
from .timing import TimedCall

_REPLAY_S = 1e-3  # calls, or rounds of the copies, are captured together until a replay lasts this long
_MOST_CALLS = 200
_SAMPLES = 30
_QUICK_SAMPLES = 3
_FEWEST = 5
_LONGEST_S = 0.1  # of steady replays; slow calls take fewer samples
_WARM_UP = 3  # replays, of warm latency
_WARM_UP_S = 2e-3  # of steady latency


def sample_warm_latency(
    call: TimedCall, latency_s: float, *, quick: bool, check: Callable[[Callable[[], Output]], None]
) -> tuple[float, ...]:
    """Seconds per call, one sample a replay, on torch's current stream, which must not be the default one.

    `check` is given what replays the calls, and judges the last one's output. Raises NotCapturableError if the call
    cannot be captured in a CUDA graph, and what `check` raises.
    """
    calls = max(1, min(_MOST_CALLS, round(_REPLAY_S / latency_s)))
    captured = capture(call.run, calls=calls)
    check(captured.replay)
    return _timed(captured, calls, warm_up=_WARM_UP, count=_QUICK_SAMPLES if quick else _SAMPLES)


def sample_steady_latency(
    calls: Sequence[TimedCall],
    latency_s: float,
    *,
    quick: bool,
    check: Callable[[Callable[[], Sequence[Output]]], None],
) -> tuple[float, ...]:
    """As warm latency, of one call given once for each copy of the inputs.

    `check` is given what replays them and returns the last output of each.
    """
    for call in calls:
        call.run()  # what a copy's first call prepares is not part of the graph
    torch.cuda.synchronize()
    torch.cuda.empty_cache()  # the graph takes memory of its own, and cannot wait for what is only kept
    count = len(calls) * rounds(latency_s, len(calls))
    outputs: list[Output | None] = [None] * len(calls)
    turns = itertools.cycle(range(len(calls)))

    def next_call() -> Output:
        index = next(turns)
        outputs[index] = None
        out = outputs[index] = calls[index].run()
        return out

    captured = capture(next_call, calls=count)

    def replay() -> Sequence[Output]:
        captured.replay()
        return [out for out in outputs if out is not None]

    check(replay)
    replay_s = latency_s * count
    warm_up = max(1, round(_WARM_UP_S / replay_s))
    return _timed(captured, count, warm_up=warm_up, count=samples(replay_s, quick=quick))


def rounds(latency_s: float, copies: int) -> int:
    """How often a graph goes through all copies."""
    return max(1, min(_MOST_CALLS // copies, round(_REPLAY_S / (latency_s * copies))))


def samples(replay_s: float, *, quick: bool) -> int:
    """How many steady replays are timed."""
    return _QUICK_SAMPLES if quick else max(_FEWEST, min(_SAMPLES, int(_LONGEST_S / replay_s)))


def _timed(captured: Captured, calls: int, *, warm_up: int, count: int) -> tuple[float, ...]:
    """Seconds per call of `count` replays of `calls` each."""
    release_kept_lines()  # of the implementation before this one
    for _ in range(warm_up):
        captured.replay()
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
    marks[0].record()
    for mark in marks[1:]:
        captured.replay()
        mark.record()
    marks[-1].synchronize()
    return tuple(start.elapsed_time(end) * 1e-3 / calls for start, end in itertools.pairwise(marks))

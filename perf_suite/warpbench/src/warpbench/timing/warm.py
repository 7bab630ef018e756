"""Warm latency: calls back to back in a CUDA graph, inputs and weights still in the L2.

What a small kernel costs in the middle of a model's decode step: the data of the kernel before it is at hand, and
the host is out of the way. It matters where a call's bytes fit the L2; elsewhere cold and warm are the same.
"""

import itertools
from collections.abc import Callable

import torch

from ..launches import capture
from ..output import Output
from .l2 import release_kept_lines
from .timing import TimedCall

_REPLAY_S = 1e-3  # calls are captured together until a replay lasts this long
_MOST_CALLS = 200
_SAMPLES = 30
_QUICK_SAMPLES = 3
_WARM_UP = 3


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
    release_kept_lines()  # of the implementation before this one
    for _ in range(_WARM_UP):
        captured.replay()
    marks = [torch.cuda.Event(enable_timing=True) for _ in range((_QUICK_SAMPLES if quick else _SAMPLES) + 1)]
    marks[0].record()
    for mark in marks[1:]:
        captured.replay()
        mark.record()
    marks[-1].synchronize()
    return tuple(start.elapsed_time(end) * 1e-3 / calls for start, end in itertools.pairwise(marks))

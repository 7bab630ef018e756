"""Energy of one call, by the GPU's own meter.

NVML's total-energy counter steps every 100 ms (seen on an H200; T4 and RTX cards since Volta have it too). So calls
run back to back in CUDA graphs, and the window goes from one step to another: no part of a step is guessed. The
energy between two steps over the calls done between them is a call's: gross, the idle power (some 85-125 W on an
H200) is in it, because it is part of the kernel's cost. Power is sampled only part of the time on A100 and H100
(Yang, Adamek and Armour, "Part-time power measurements", arXiv:2312.02741), which a steady load makes harmless.
"""

import itertools
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import torch

from .launches import Captured, capture
from .records import Energy
from .timing.timing import TimedCall

METHOD = "NVML total-energy counter, from step to step under back-to-back CUDA graph replays, gross of idle power"
_REPLAY_S = 2e-3
_MOST_CALLS = 1000
_QUEUED = 64  # replays enqueued ahead, so that the GPU never waits for the host
_SETTLE_S = 0.25  # clocks, power and the meter's own average
_STEPS = 8
_REPLAYS_A_STEP = 20  # a replay counts for one step or the next: at most 5 % of a step
_LIMIT_S = 10.0


def measure_energy(call: TimedCall, warm_s: float, energy_j: Callable[[], float | None]) -> Energy | None:
    """Energy per call, one value a step of the counter; None if the GPU has no such counter.

    `warm_s` is about what a call takes back to back; `energy_j` reads the counter in joules. Takes about 1.3 s, and
    leaves the GPU hot: clocks recover within a second. Raises NotCapturableError if the call cannot be captured in a
    CUDA graph.
    """
    if energy_j() is None:
        return None
    calls = max(1, min(_MOST_CALLS, round(_REPLAY_S / warm_s)))
    steps = _steps(energy_j, capture(call.run, calls=calls))
    torch.cuda.current_stream().synchronize()
    spans = list(itertools.pairwise(steps))
    if not spans:
        return None
    window_s = steps[-1].at_s - steps[0].at_s
    return Energy(
        per_call_j=tuple((b.energy_j - a.energy_j) / ((b.replays - a.replays) * calls) for a, b in spans),
        window_s=window_s,
        power_w=(steps[-1].energy_j - steps[0].energy_j) / window_s,
        method=METHOD,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """The counter has just stepped: when, to what, and how many replays were done by then."""

    at_s: float
    energy_j: float
    replays: int


def _steps(energy_j: Callable[[], float | None], captured: Captured) -> list[_Step]:
    """_STEPS + 1 of the counter's steps under back-to-back replays, which go on when it returns; fewer if it stands."""
    found: list[_Step] = []
    queued: deque[torch.cuda.Event] = deque()
    begun = time.perf_counter()
    last, replays = energy_j(), 0
    while len(found) <= _STEPS and (now_s := time.perf_counter()) < begun + _LIMIT_S:
        while queued and queued[0].query():
            queued.popleft()
            replays += 1
        while len(queued) < _QUEUED:
            captured.replay()
            queued.append(torch.cuda.Event())
            queued[-1].record()
        now_j = energy_j()
        enough = not found or replays - found[-1].replays >= _REPLAYS_A_STEP
        if now_j != last and now_j is not None and now_s > begun + _SETTLE_S and enough:
            found.append(_Step(at_s=now_s, energy_j=now_j, replays=replays))
        last = now_j
    return found

"""Energy of one call, by the GPU's own meter.

NVML's total-energy counter steps every 100 ms (seen on an H200; T4 and RTX cards since Volta have it too). So calls
run back to back in CUDA graphs, and the window goes from one step to another: no part of a step is guessed. Mean
power over the window times the time of a call is its energy: gross, the idle power (some 85-125 W on an H200) is in
it, because whoever runs the kernel pays for it too. Power is sampled only part of the time on A100 and H100
(Yang, Adamek and Armour, "Part-time power measurements", arXiv:2312.02741), which a steady load makes harmless.
"""

import itertools
import time
from collections.abc import Callable

import torch

from .launches import capture
from .records import Energy
from .timing.timing import TimedCall

METHOD = "NVML total-energy counter from step to step under back-to-back CUDA graph replays, gross of idle power"
_REPLAY_S = 10e-3  # long, so that a second of them fits the launch queue
_MOST_CALLS = 2000
_SETTLE_S = 0.25  # clocks, power and the meter's own average
_STEPS = 8
_STEP_LIMIT_S = 0.5  # a counter that stands still this long is none
_SPARE_S = 0.35  # of load behind the last step expected


def measure_energy(call: TimedCall, warm_s: float, energy_j: Callable[[], float | None]) -> Energy | None:
    """Energy per call, one value a step of the counter; None if the GPU has no such counter.

    `warm_s` is about what a call takes back to back; `energy_j` reads the counter in joules. Takes about 1.2 s.
    Raises NotCapturableError if the call cannot be captured in a CUDA graph.
    """
    if energy_j() is None:
        return None
    calls = max(1, min(_MOST_CALLS, round(_REPLAY_S / warm_s)))
    captured = capture(call.run, calls=calls)
    captured.replay()
    torch.cuda.current_stream().synchronize()
    begun = time.perf_counter()
    captured.replay()
    torch.cuda.current_stream().synchronize()
    replay_s = time.perf_counter() - begun
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    replays = max(2, round((_SETTLE_S + 0.1 * (_STEPS + 1) + _SPARE_S) / replay_s))
    start.record()
    for _ in range(replays):
        captured.replay()
    end.record()
    time.sleep(_SETTLE_S)
    steps = _steps(energy_j, end)
    end.synchronize()
    if len(steps) < 3:
        return None
    call_s = start.elapsed_time(end) * 1e-3 / (replays * calls)
    powers = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in itertools.pairwise(steps)]
    window_s = steps[-1][0] - steps[0][0]
    power_w = (steps[-1][1] - steps[0][1]) / window_s
    return Energy(
        per_call_j=tuple(power * call_s for power in powers), window_s=window_s, power_w=power_w, method=METHOD
    )


def _steps(energy_j: Callable[[], float | None], end: torch.cuda.Event) -> list[tuple[float, float]]:
    """(time, counter) at each of the counter's steps, while the load lasts."""
    last = energy_j()
    found: list[tuple[float, float]] = []
    waited_since = time.perf_counter()
    while len(found) <= _STEPS and not end.query() and time.perf_counter() - waited_since < _STEP_LIMIT_S:
        now = energy_j()
        if now is not None and now != last:
            waited_since = time.perf_counter()
            found.append((waited_since, now))
            last = now
        time.sleep(5e-4)
    return found

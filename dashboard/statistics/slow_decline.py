"""Slow decline: a series that got worse within a year, in steps too small to be found one by one.

The first ten commits of the 365 days before the newest commit are compared with the last ten, after steps that are
reported by themselves have been taken off.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..model.metric import Better
from ..model.quantities import relative_change
from ..model.verdict import ChangeKind
from .distributions import MEDIAN_ERROR, NORMAL_95
from .episodes import Episode
from .noise import median, noise_scale

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

DAYS = 365
WINDOW = 10  # commits at either end
_FEWEST = 4 * WINDOW  # commits within the year
_FEWEST_DAYS = 90  # that they span
_LEAST = 0.03  # the 95 % interval lies beyond it, and a decline of 5 % is found in noise of up to 1 %
_REPORTED = 0.02  # steps from here on are reported by themselves
_PARTS = 4  # the level gets worse from each quarter of the commits to the next
_DAY_MS = 24 * 3600 * 1000


def slow_decline(date_ms: Ints, levels: Floats, steps: Sequence[int], better: Better) -> Episode | None:
    """The decline within a year up to the newest commit; None if there is none.

    `levels`: positive, by commit in order, with its date; `steps`: indices of changepoints. The episode lasts from the
    commit after the first ten to the newest. Its interval is normal, with the noise of values up to three apart.
    """
    if len(levels) < _FEWEST:
        return None
    start = int(np.searchsorted(date_ms, date_ms[-1] - DAYS * _DAY_MS))
    if len(levels) - start < _FEWEST or date_ms[-1] - date_ms[start] < _FEWEST_DAYS * _DAY_MS:
        return None
    values = without_steps(np.log(levels[start:]), [step - start for step in steps])
    old, new = median(values[:WINDOW]), median(values[-WINDOW:])
    shift, sign = new - old, 1 if better is Better.LOWER else -1
    error = MEDIAN_ERROR * noise_scale(values) * math.sqrt(2 / WINDOW)
    half = NORMAL_95 * error
    parts = [median(part) for part in np.array_split(values, _PARTS)]
    if sign * shift - half < math.log1p(_LEAST) or (sign * np.diff(parts) <= 0).any():
        return None
    return Episode(
        kind=ChangeKind.SLOW_DECLINE,
        first=start + WINDOW,
        last=len(levels) - 1,
        before=math.exp(median(np.log(levels[-WINDOW:])) - shift),
        after=math.exp(median(np.log(levels[-WINDOW:]))),
        magnitude=relative_change(shift),
        ci_low=relative_change(shift - half),
        ci_high=relative_change(shift + half),
        p_value=math.erfc(abs(shift) / max(error, 1e-12) / math.sqrt(2)),
    )


def without_steps(logs: Floats, steps: Sequence[int]) -> Floats:
    """Logarithms with the steps of 2 % and more within ten commits taken off; other steps are part of a decline."""
    values = logs.copy()
    for step in sorted(steps):
        if 0 < step < len(values):
            near = median(values[step : step + WINDOW]) - median(values[max(step - WINDOW, 0) : step])
            if abs(near) >= math.log1p(_REPORTED):
                values[step:] -= near
    return values

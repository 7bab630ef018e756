"""Where the level of a series shifts, and by how much.

A first detector, in three steps. (1) Logarithms, so that a change is relative; the noise is the scale of the
differences of neighbours, outliers cut to three of it around a running median. (2) PELT, exact segmentation of least
squares with a penalty per change (Killick, Fearnhead and Eckley, "Optimal detection of changepoints with a linear
computational cost", JASA 107:500, 2012). (3) The weakest change is taken back as long as it fails the two-sided
Mann-Whitney test between its neighbours (normal approximation, ties corrected) or is smaller than what matters.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Changepoint:
    """A shift of the level. Relative magnitudes: 0.04 is 4 % more than before."""

    index: int  # first value of the new level
    before: float  # medians of the neighbouring segments
    after: float
    magnitude: float
    low: float  # 95 % interval of the magnitude
    high: float
    p_value: float  # of the rank test between the segments; the place was chosen by the data, so it flatters


def changepoints(values: Sequence[float], *, smallest_change: float = 0.01) -> tuple[Changepoint, ...]:
    """The changepoints of a series of finite values, in order.

    Changes below `smallest_change` (relative) are not looked for. At least 4 values stand on each side. A series
    with values at or below zero is judged on the scale of its median instead of logarithms.
    Time: about n log n for a series with many changes, n^2 for one with none (0.3 s for 10,000 values).
    """
    raw = np.asarray(values, dtype=float)
    if len(raw) < 2 * _SHORTEST:
        return ()
    logs = _relative(raw)
    noise = max(_noise(logs), _FLOOR)
    calm = _without_outliers(logs, noise)
    edges = _pelt(calm, _PENALTY * noise**2 * math.log(len(calm)))
    edges = _prune(logs, calm, edges, noise, math.log1p(smallest_change))
    return tuple(
        _changepoint(raw, logs, noise, start, middle, end)
        for start, middle, end in zip(edges, edges[1:], edges[2:], strict=False)
    )


_SHORTEST = 4  # values in a segment
_PENALTY = 3.5
_ALPHA = 1e-3  # of the rank test
_FLOOR = 2e-4  # relative noise below which clocks' own resolution rules
_SEPARATION = 1.0  # smallest change in units of the noise

"""Where the level of a series shifts, and by how much.

A first detector, in three steps. (1) Logarithms, so that a change is relative; the noise is the scale of the
differences of neighbours, outliers cut to three of it around a running median. (2) PELT, exact segmentation of least
squares with a penalty per change (Killick, Fearnhead and Eckley, "Optimal detection of changepoints with a linear
computational cost", JASA 107:500, 2012). (3) The weakest change is taken back as long as it fails the two-sided
Mann-Whitney test between its neighbours (normal approximation, ties corrected) or is smaller than what matters.
"""

import itertools
import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from warpwatch.dashboard.statistics.noise import noise_scale

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
    noise = max(noise_scale(logs), _FLOOR)
    calm = _without_outliers(logs, noise)
    edges = _pelt(calm, _PENALTY * noise**2 * math.log(len(calm)))
    edges = _prune(logs, calm, edges, noise, math.log1p(smallest_change))
    return tuple(
        _changepoint(raw, logs, noise, start, middle, end)
        for start, middle, end in zip(edges, edges[1:], edges[2:], strict=False)
    )


# Tuned on labelled histories (README.md): fewer false alarms before more finds.
_SHORTEST = 4  # values in a segment
_PENALTY = 7.0  # per change, in noise variances times log n
_ALPHA = 3e-5  # of the rank test
_SEPARATION = 7.0  # smallest change, in standard errors of the shorter segment; and never below one noise
_OBVIOUS = 8.0  # noises between segments that do not overlap: believed without the rank test, where
_FEW = 30  # the series has fewer values than these, so that the test has too little to count, or
_LASTING = 10  # both segments are as long as this; shorter ones are the bursts of real machines
_EXACT_UP_TO = 20  # values in the shorter segment; beyond, the normal approximation can reach _ALPHA
_FLOOR = 2e-4  # relative noise below which the clocks' own resolution rules


def _relative(raw: _Array) -> _Array:
    """Logarithms where all values are positive; else the values in units of their median size."""
    if (raw > 0).all():
        return np.log(raw)
    scale = float(np.median(np.abs(raw)))
    return raw / scale if scale > 0 else raw / (float(np.abs(raw).max()) or 1.0)


def _without_outliers(logs: _Array, noise: float) -> _Array:
    """The values, those further than three noises from a running median of five cut to that distance."""
    padded = np.concatenate([logs[2:0:-1], logs, logs[-2:-4:-1]])
    middle = np.median(np.lib.stride_tricks.sliding_window_view(padded, 5), axis=1)
    return np.asarray(np.clip(logs, middle - 3 * noise, middle + 3 * noise))


def _pelt(values: _Array, penalty: float) -> list[int]:
    """Edges, first 0 and last n, of the segments with the least sum of squares plus `penalty` a segment."""
    n = len(values)
    centred = values - values.mean()
    total = np.concatenate([[0.0], np.cumsum(centred)])
    squares = np.concatenate([[0.0], np.cumsum(centred**2)])
    best = np.full(n + 1, np.inf)
    best[0] = -penalty
    came_from = np.zeros(n + 1, dtype=int)
    starts = np.array([0])
    beaten: deque[NDArray[np.int_]] = deque()
    for end in range(_SHORTEST, n + 1):
        if end - _SHORTEST >= _SHORTEST:
            starts = np.append(starts, end - _SHORTEST)
        cost = squares[end] - squares[starts] - (total[end] - total[starts]) ** 2 / (end - starts)
        reached = best[starts] + cost
        choice = int(np.argmin(reached))
        best[end] = reached[choice] + penalty
        came_from[end] = starts[choice]
        # A start beaten here is beaten for good once a segment from here is long enough to take its place.
        beaten.append(starts[reached > best[end]])
        if len(beaten) == _SHORTEST:
            starts = starts[~np.isin(starts, beaten.popleft())]
    edges = [n]
    while edges[-1] > 0:
        edges.append(int(came_from[edges[-1]]))
    return edges[::-1]


def _prune(logs: _Array, calm: _Array, edges: list[int], noise: float, smallest: float) -> list[int]:
    """Takes back the least certain change until all are certain and large enough."""
    edges = list(edges)
    while len(edges) > 2:
        judged = []
        worth = _worth_of_one(calm, edges)
        for start, middle, end in zip(edges, edges[1:], edges[2:], strict=False):
            left, right = logs[start:middle], logs[middle:end]
            shift = abs(float(np.median(right) - np.median(left)))
            p = _rank_test(left, right, worth)
            separation = max(1.0, _SEPARATION / math.sqrt(worth * min(len(left), len(right))))
            obvious = (
                (len(logs) < _FEW or min(len(left), len(right)) >= _LASTING)
                and shift > _OBVIOUS * noise / math.sqrt(worth)
                and _apart(calm[start:middle], calm[middle:end])
            )
            weak = (p > _ALPHA and not obvious) or shift < smallest or shift < separation * noise
            judged.append((weak, p, -shift, middle))
        failed = [item for item in judged if item[0]]
        if not failed:
            return edges
        edges.remove(max(failed, key=lambda item: (item[1], item[2]))[3])
    return edges


def _apart(left: _Array, right: _Array) -> bool:
    """Whether the segments' values do not overlap."""
    return bool(left.max() < right.min() or right.max() < left.min())


def _worth_of_one(calm: _Array, edges: list[int]) -> float:
    """How many independent values one is worth, from the lag-1 correlation within segments: (1 - r) / (1 + r)."""
    within = np.concatenate([calm[a:b] - calm[a:b].mean() for a, b in itertools.pairwise(edges)])
    power = float((within**2).sum())
    rounding = len(within) * _FLOOR**2  # a constant segment's residues hang together and mean nothing
    r = min(max(float((within[1:] * within[:-1]).sum()) / (power + rounding), 0.0), 0.9)
    return (1 - r) / (1 + r)


def _rank_test(left: _Array, right: _Array, worth: float = 1.0) -> float:
    """Two-sided p of the Mann-Whitney test: exact for a short segment, else normal with ties and continuity corrected.

    `worth` below 1 widens it for values that hang together.
    """
    both = np.concatenate([left, right])
    _, inverse, counts = np.unique(both, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    ranks = (ends - (counts - 1) / 2)[inverse]
    a, b, n = len(left), len(right), len(both)
    u = ranks[:a].sum() - a * (a + 1) / 2
    ties = float((counts.astype(float) ** 3 - counts).sum()) / (n * (n - 1))
    deviation = math.sqrt(a * b / 12 * (n + 1 - ties))
    if deviation == 0:
        return 1.0
    if min(a, b) <= _EXACT_UP_TO:
        p = min(2 * _arrangements_up_to(math.ceil(min(u, a * b - u)), min(a, b), max(a, b)), 1.0)
        z = NormalDist().inv_cdf(1 - p / 2) if p > 1e-15 else 8.0
    else:
        z = max(abs(u - a * b / 2) - 0.5, 0.0) / deviation
    return math.erfc(z * math.sqrt(worth) / math.sqrt(2))


@lru_cache(maxsize=4096)
def _arrangements_up_to(u: int, a: int, b: int) -> float:
    """The share of all orders of a and b values whose Mann-Whitney count is at most u.

    From the counts' generating function, the Gaussian binomial: the product of (1 - q^(b+i)) / (1 - q^i), i = 1..a.
    """
    counts = np.zeros(u + 1)
    counts[0] = 1.0
    for i in range(1, a + 1):
        if b + i <= u:
            counts[b + i :] -= counts[: u + 1 - b - i].copy()
        for start in range(min(i, u + 1)):
            counts[start::i] = np.cumsum(counts[start::i])
    return float(counts.sum()) / math.comb(a + b, a)


def _changepoint(raw: _Array, logs: _Array, noise: float, start: int, middle: int, end: int) -> Changepoint:
    before, after = float(np.median(raw[start:middle])), float(np.median(raw[middle:end]))
    left, right = logs[start:middle], logs[middle:end]
    # A median of n normal values has the standard error 1.2533 s / sqrt n.
    spread = [max(_spread(part), noise) * 1.2533 / math.sqrt(len(part)) for part in (left, right)]
    half = 1.96 * math.hypot(*spread)
    if (raw > 0).all():
        shift = math.log(after / before)
        magnitude, low, high = (math.expm1(x) for x in (shift, shift - half, shift + half))
    else:
        size = abs(before) or 1.0
        scale = float(np.median(np.abs(raw))) or float(np.abs(raw).max()) or 1.0
        magnitude = (after - before) / size
        low, high = magnitude - half * scale / size, magnitude + half * scale / size
    return Changepoint(
        index=middle, before=before, after=after, magnitude=magnitude, low=low, high=high,
        p_value=_rank_test(left, right),
    )  # fmt: skip


def _spread(part: _Array) -> float:
    return 1.4826 * float(np.median(np.abs(part - np.median(part))))

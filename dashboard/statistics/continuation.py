"""Whether a series goes on as it was: then the detector would tell what it told before, and need not look again.

A change that `evidence.py` accepts splits the last level in two parts whose ranks differ: by 3.8 or 4.2 standard
deviations, or by nearly as much as parts so short can show. So the ranks of the last level's values are summed from the
newest back, which gives the Mann-Whitney statistic of every such split at once, for many series together. Where one
comes near to what is asked of a change, the series is left to the detector.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from warpwatch.dashboard.statistics.level_path import Floats, Places

LOOK_BACK = 96  # values of the last level: of a change further back the detector had its look

_NEAR = 0.85  # of what a change has to show: excursions count here, and one or two may hide as much
_RANKS, _RANKS_OF_YOUNG, _YOUNG = 3.8, 4.2, 20  # as evidence.py asks
_SEPARATE = 0.95
_LEAST_NEW, _OF_A_SHORT_SERIES = 4, 6  # values of a new level at the end: so many, or a sixth of a short series
_LEAST_OLD = 8  # values of the level before
_SMALLEST = 0.006  # relative difference of means; the detector asks 1 % of medians
_UNCUT = 3 * _SMALLEST  # relative distance from the quartiles within which no value is an outlier
_AT_ONCE = 200  # series, whose arrays stay in a processor's cache


def go_on(levels: Sequence[Floats], counts: Sequence[int]) -> NDArray[np.bool_]:
    """Of each series, whether no split of its last level comes near to a change.

    `levels` are the newest values of each last level in order, at least one and at most LOOK_BACK of them; `counts` how
    many values each series has in all.
    """
    blocks = range(0, len(levels), _AT_ONCE)
    return np.concatenate([_go_on(levels[n : n + _AT_ONCE], counts[n : n + _AT_ONCE]) for n in blocks])


def _go_on(levels: Sequence[Floats], counts: Sequence[int]) -> NDArray[np.bool_]:
    lengths = np.array([len(level) for level in levels])
    width = int(lengths.max())
    values = np.full((len(levels), width), np.inf)  # the newest first; what is not there ranks last
    for row, level in zip(values, levels, strict=True):
        row[: len(level)] = level[::-1]
    ordered = np.sort(values, axis=1)
    new = np.arange(1, width + 1, dtype=np.float64)[None, :]
    old = lengths[:, None] - new
    is_split = (new >= np.minimum(_LEAST_NEW, np.maximum(np.array(counts) // _OF_A_SHORT_SERIES, 1))[:, None]) & (
        old >= np.minimum(_LEAST_OLD, lengths // 2)[:, None]
    )
    old[~is_split] = 1.0
    is_near = is_split & (_differences(values, ordered, lengths, new, old) >= _SMALLEST)
    some = is_near.any(axis=1)  # of the rest the ranks need not be asked
    if some.any():
        is_near[some] &= _stand_out(values[some], lengths[some], new, old[some])
    return np.asarray(~is_near.any(axis=1))


def _stand_out(values: Floats, lengths: Places, new: Floats, old: Floats) -> NDArray[np.bool_]:
    """Of every split, whether its ranks come near to what a change has to show."""
    length = lengths[:, None].astype(np.float64)
    ranks, ties = _ranks(values, lengths)
    beyond = np.abs(np.cumsum(ranks, axis=1) - new * (length + 1) / 2)
    spread = length + 1 - ties[:, None] / np.maximum(length * (length - 1), 1)
    variance = new * old / 12 * np.maximum(spread, 0)
    deviation = np.divide(beyond, np.sqrt(variance), out=np.zeros_like(beyond), where=variance > 0)
    most = np.sqrt(3 * new * old / (length + 1))
    wanted = np.minimum(np.where(new < _YOUNG, _RANKS_OF_YOUNG, _RANKS), _SEPARATE * most)
    return np.asarray(deviation >= _NEAR * wanted)


def _ranks(values: Floats, lengths: Places) -> tuple[Floats, Floats]:
    """The rank of each value in its row, zero where there is none; and of each row the sum of t^3 - t over its ties."""
    order = np.argsort(values, axis=1)
    ordered = np.take_along_axis(values, order, axis=1)
    place = np.broadcast_to(np.arange(ordered.shape[1]), ordered.shape)
    is_there = place < lengths[:, None]
    edge = np.ones((len(ordered), ordered.shape[1] + 1), dtype=bool)  # a run of equal values begins, or one has ended
    edge[:, 1:-1] = ordered[:, 1:] != ordered[:, :-1]
    first = np.maximum.accumulate(np.where(edge[:, :-1], place, 0), axis=1)
    last = np.minimum.accumulate(np.where(edge[:, 1:], place, ordered.shape[1])[:, ::-1], axis=1)[:, ::-1]
    ranks = np.empty_like(ordered)
    np.put_along_axis(ranks, order, (first + last) / 2 + 1, axis=1)
    together = (last - first + 1.0) ** 2 - 1
    return np.where(is_there, ranks, 0.0), np.where(is_there, together, 0.0).sum(axis=1)


def _differences(values: Floats, ordered: Floats, lengths: Places, new: Floats, old: Floats) -> Floats:
    """By how much the means of both parts of every split differ, outliers cut, in units of the level's size.

    Never cut to less than what counts: the first values of a step in a quiet series look like outliers.
    """
    row = np.arange(len(values))
    low, middle, high = (ordered[row, share * (lengths - 1) // 4][:, None] for share in (1, 2, 3))
    size = np.maximum(np.abs(middle), np.finfo(float).tiny)
    reach = np.maximum(1.5 * (high - low), _UNCUT * size)
    cut = np.where(np.isinf(values), 0.0, np.clip(values, low - reach, high + reach))
    sums = np.cumsum(cut, axis=1)
    return np.asarray(np.abs(sums / new - (sums[:, -1:] - sums) / old) / size)

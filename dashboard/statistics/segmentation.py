"""Segmentation of a series: levels, excursions from them, and one kind of noise."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from .level_path import Floats, LevelGrid, LevelPath, Span, level_path, spans, split

EXCURSION = 12  # values within which a returning level is no change
_LEVEL = 8  # values of any level at least
_OF_A_SHORT_SERIES = 6  # of a short series, a sixth is the limit for an excursion and for the first level
_DOUBLED, _FIRST_LEVEL_DOUBLED = 0.69, 4  # values of a first level at least, if the next is twice as high or half
_ROUNDS = 4
_TOO_MUCH = 0.4  # more of a series cannot be excursions


class NoiseKind(StrEnum):
    """Noise model of a segmentation."""

    INDEPENDENT = "independent"
    AUTOREGRESSIVE = "autoregressive"
    TWO_STATES = "two states"  # of the machine, each for a while
    DRIFTING = "drifting"  # around a smooth trend


@dataclass(frozen=True, slots=True, kw_only=True)
class Segmentation:
    """A fitted model of a series; of several, the one with the shortest description."""

    kind: NoiseKind
    cost: float  # description length, nats
    edges: list[int]  # first value of each new level
    values: Floats  # the series without the machine's states and its drift
    excursion: NDArray[np.bool_]  # by value: not part of a level
    path: LevelPath  # through all values but excursions
    first_path: LevelPath  # through all values
    state: Floats | None = None  # by value: contribution of the machine's state
    drift: Floats | None = None  # by value: smooth trend


def fit_segments(
    values: Floats, scale: float, penalty: float, *, one_level: bool = False, grid: LevelGrid | None = None
) -> Segmentation:
    """Levels in independent noise; excursions are removed and the rest is fitted again.

    An excursion is a stretch of at most a dozen values (of a short series, a sixth) after which the series turns back,
    or any of fewer than eight. The shortest are removed first, and no two neighbours at once: the levels around a burst
    may be one. `grid`: of another segmentation of the same values.
    """
    excursion = np.zeros(len(values), dtype=bool)
    kept = np.arange(len(values))
    path = first = level_path(values, scale, penalty, one_level=one_level, grid=grid)
    for _ in range(_ROUNDS):
        short = _short_stretches(path, len(kept))
        removed = excursion.copy()
        for start, end in short:
            removed[kept[start:end]] = True
        if not short or np.count_nonzero(removed) > _TOO_MUCH * len(removed):
            break
        excursion, kept = removed, (~removed).nonzero()[0]
        path = level_path(values[kept], scale, penalty, one_level=one_level)
    starts = int(np.count_nonzero(excursion[1:] & ~excursion[:-1]))
    anywhere = np.log(6 * scale)  # an excursion's values: uniform over six noise scales
    return Segmentation(
        kind=NoiseKind.INDEPENDENT,
        cost=path.cost + float(excursion.sum() * anywhere) + penalty * starts,
        edges=_edges_among_all(values, kept, path),
        values=values,
        excursion=excursion,
        path=path,
        first_path=first,
    )


def _short_stretches(path: LevelPath, count: int) -> list[Span]:
    stretches = spans(path.edges, count)
    limits = [_first_limit(path, count)]
    limits += [_limit(path.levels, index, count) for index in range(1, len(stretches) - 1)]
    short = [span for span, limit in zip(stretches[:-1], limits, strict=False) if span[1] - span[0] < limit]
    chosen: list[Span] = []
    ends: set[int] = set()
    for start, end in sorted(short, key=lambda span: span[1] - span[0]):
        if not ends & {start, end}:
            chosen.append((start, end))
            ends |= {start, end}
    return chosen


def _first_limit(path: LevelPath, count: int) -> int:
    """Minimum length of a first level."""
    usual = min(_LEVEL, count // _OF_A_SHORT_SERIES)
    doubled = len(path.levels) > 1 and abs(path.levels[1] - path.levels[0]) * path.grid.cell > _DOUBLED
    return min(usual, _FIRST_LEVEL_DOUBLED) if doubled else usual


def _limit(levels: Sequence[int], index: int, count: int) -> int:
    """Minimum length of a level; longer if the series turns back after it."""
    before, level, after = levels[index - 1 : index + 2]
    if (after - level) * (level - before) >= 0:
        return _LEVEL
    return max(min(EXCURSION, count // _OF_A_SHORT_SERIES) + 1, _LEVEL)


def _edges_among_all(values: Floats, kept: NDArray[np.int_], path: LevelPath) -> list[int]:
    """The path's edges in the whole series; an excursion at an edge is split between the levels by likelihood."""
    edges = []
    for edge, before, after in zip(path.edges, path.levels[:-1], path.levels[1:], strict=True):
        first, last = int(kept[edge - 1]) + 1, int(kept[edge])
        if last > first:
            between = values[first:last]
            at_old, at_new = path.grid.surprise(path.density, between, before, after)
            last = first + split(at_old - at_new)
        edges.append(last)
    return edges

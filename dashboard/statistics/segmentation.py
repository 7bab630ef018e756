"""What a series is read as: levels, excursions from them, and one kind of noise."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from .level_path import Floats, LevelGrid, LevelPath, Span, level_path, spans, split

EXCURSION = 12  # values: what returns within so many was no change
_LEVEL = 8  # values that make one wherever the series goes from there
_OF_A_SHORT_SERIES = 6  # where a series is short, a sixth of it will do for an excursion, and for the first level
_DOUBLED, _FIRST_LEVEL_DOUBLED = 0.69, 4  # a first level of so few is one if the next is twice as high or half
_ROUNDS = 4
_TOO_MUCH = 0.4  # of a series cannot be excursions


class NoiseKind(StrEnum):
    """How the noise of a series hangs together."""

    INDEPENDENT = "independent"
    AUTOREGRESSIVE = "autoregressive"
    TWO_STATES = "two states"  # the machine sits in one of two for a while
    DRIFTING = "drifting"  # around a smooth trend


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One explanation of a series; of several the cheapest holds."""

    kind: NoiseKind
    cost: float  # nats
    edges: list[int]  # first value of each new level
    values: Floats  # the series without the machine's states and its drift
    excursion: NDArray[np.bool_]  # by value: belongs to no level
    path: LevelPath  # through what is no excursion
    first_path: LevelPath  # through everything
    state: Floats | None = None  # by value: what the machine's state adds, where it has two
    drift: Floats | None = None  # by value: the smooth trend, where there is one


def read(
    values: Floats, scale: float, penalty: float, *, one_level: bool = False, grid: LevelGrid | None = None
) -> Reading:
    """Levels through independent noise, with the excursions taken out and the rest read again.

    An excursion is a stretch of at most a dozen values from which the series turns back (of a sixth of a short series),
    and any of fewer than eight.
    The shortest go first, and no two neighbours at once: where a burst ends, the levels around it may be one.
    `grid`: of another reading of the same values.
    """
    excursion = np.zeros(len(values), dtype=bool)
    kept = np.arange(len(values))
    path = first = level_path(values, scale, penalty, one_level=one_level, grid=grid)
    for _ in range(_ROUNDS):
        short = _short_stretches(path, len(kept))
        taken = excursion.copy()
        for start, end in short:
            taken[kept[start:end]] = True
        if not short or np.count_nonzero(taken) > _TOO_MUCH * len(taken):
            break
        excursion, kept = taken, (~taken).nonzero()[0]
        path = level_path(values[kept], scale, penalty, one_level=one_level)
    starts = int(np.count_nonzero(excursion[1:] & ~excursion[:-1]))
    anywhere = np.log(6 * scale)  # an excursion's values: uniform over six noise scales
    return Reading(
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
    limits += [_limit(path.levels, place, count) for place in range(1, len(stretches) - 1)]
    short = [span for span, limit in zip(stretches[:-1], limits, strict=False) if span[1] - span[0] < limit]
    taken: list[Span] = []
    touched: set[int] = set()
    for start, end in sorted(short, key=lambda span: span[1] - span[0]):
        if not touched & {start, end}:
            taken.append((start, end))
            touched |= {start, end}
    return taken


def _first_limit(path: LevelPath, count: int) -> int:
    """The values that make a first level."""
    usual = min(_LEVEL, count // _OF_A_SHORT_SERIES)
    doubled = len(path.levels) > 1 and abs(path.levels[1] - path.levels[0]) * path.grid.cell > _DOUBLED
    return min(usual, _FIRST_LEVEL_DOUBLED) if doubled else usual


def _limit(levels: Sequence[int], place: int, count: int) -> int:
    """The values that make a level, which are more where the series turns back after it."""
    before, level, after = levels[place - 1 : place + 2]
    if (after - level) * (level - before) >= 0:
        return _LEVEL
    return max(min(EXCURSION, count // _OF_A_SHORT_SERIES) + 1, _LEVEL)


def _edges_among_all(values: Floats, kept: NDArray[np.int_], path: LevelPath) -> list[int]:
    """The path's edges as places of the whole series: the excursion at an edge goes to the level that it suits."""
    edges = []
    for edge, before, after in zip(path.edges, path.levels[:-1], path.levels[1:], strict=True):
        first, last = int(kept[edge - 1]) + 1, int(kept[edge])
        if last > first:
            between = values[first:last]
            at_old, at_new = path.grid.surprise(path.density, between, before, after)
            last = first + split(at_old - at_new)
        edges.append(last)
    return edges

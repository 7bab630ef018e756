"""The level of each stretch between changepoints: the median over its commits."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import median
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..model.changepoint import SeriesChange
from ..model.series import Commit, Point, Status

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Stretch(NamedTuple):
    """From one commit to another, both by their place among the commits that have a number."""

    first: int
    last: int
    level: float
    commits: int


def medians_of_groups(groups: Ints, values: Floats) -> Floats:
    """The median of each group's values; groups are 0, 1, 2, ... in any order and none is empty."""
    order = np.lexsort((values, groups))
    counts = np.bincount(groups)
    starts = np.concatenate(([0], np.cumsum(counts)[:-1]))
    ordered = values[order]
    low, high = ordered[starts + (counts - 1) // 2], ordered[starts + counts // 2]
    return np.asarray((low + high) / 2, dtype=np.float64)


def stretches(values: Floats, cards: Ints, edges: Ints) -> list[Stretch]:
    """Levels between edges, card by card, in the order in which they begin.

    `values` are the commits' medians in order, `cards` tells each one's card by any number, `edges` are the places at
    which a new level begins.
    """
    if not len(values):
        return []
    segment = np.searchsorted(edges, np.arange(len(values)), side="right")
    _, first, group = np.unique(np.stack((segment, cards)), axis=1, return_index=True, return_inverse=True)
    group = group.ravel()
    level = medians_of_groups(group, values)
    last = np.zeros(len(first), dtype=np.int64)
    np.maximum.at(last, group, np.arange(len(values)))
    count = np.bincount(group)
    return [Stretch(int(first[n]), int(last[n]), float(level[n]), int(count[n])) for n in np.argsort(first)]


# The levels of a history: what its values had in common between two changes.


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """Commits that one level covers: the median of their values, each the median of its runs."""

    first: Commit
    last: Commit
    value: float
    commits: int
    card: str | None  # the physical GPU; another one has levels of its own


def levels(points: Sequence[Point], changes: Sequence[SeriesChange], *, is_exact: bool) -> tuple[Level, ...]:
    """In order of commits. Points are in the same order. An exact quantity is the same on every card."""
    numbers = [point for point in points if point.status is Status.OK and point.value is not None]
    runs = [list(its) for _, its in groupby(numbers, key=lambda point: point.commit.hash)]
    commits = [its[0].commit for its in runs]
    cards = [None if is_exact else its[-1].card for its in runs]
    number = {card: place for place, card in enumerate(dict.fromkeys(cards))}
    found = stretches(
        np.array([median(point.value for point in its if point.value is not None) for its in runs]),
        np.array([number[card] for card in cards], dtype=np.int64),
        np.array(sorted(change.index for change in changes), dtype=np.int64),
    )
    return tuple(
        Level(
            first=commits[each.first],
            last=commits[each.last],
            value=each.level,
            commits=each.commits,
            card=cards[each.first],
        )
        for each in found
    )

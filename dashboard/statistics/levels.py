"""The level of each stretch between changepoints: the median over its commits."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

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

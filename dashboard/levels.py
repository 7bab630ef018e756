"""The levels of a history: what its values had in common between two changes."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import median

import numpy as np

from warpwatch.dashboard.statistics.levels import stretches
from warpwatch.dashboard.store.records import Commit, Point, SeriesChange, Status


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
        Level(first=commits[each.first], last=commits[each.last], value=each.level, commits=each.commits,
              card=cards[each.first])
        for each in found
    )  # fmt: skip

"""The levels of a history: what its values had in common between two changes."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import median

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
    edges = sorted(change.index for change in changes)
    numbers = [point for point in points if point.status is Status.OK and point.value is not None]
    segments: dict[tuple[int, str | None], list[tuple[Commit, float]]] = {}
    for place, (_, runs) in enumerate(groupby(numbers, key=lambda point: point.commit.hash)):
        own = list(runs)
        card = None if is_exact else own[-1].card
        value = median(point.value for point in own if point.value is not None)
        segments.setdefault((bisect_right(edges, place), card), []).append((own[0].commit, value))
    return tuple(
        Level(first=its[0][0], last=its[-1][0], value=median(value for _, value in its), commits=len(its), card=card)
        for (_, card), its in segments.items()
    )

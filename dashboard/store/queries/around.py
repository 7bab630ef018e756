"""The points of many series at and around two commits, taken at once: a record a point would be too slow for thousands.

All series stand one after the other in the same columns; what is asked of each is a part of them.
"""

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

import numpy as np
from sqlalchemy import Connection

from warpwatch.dashboard.store.calendar import NOT_PLACED, PointRow, calendar
from warpwatch.dashboard.store.columns import Floats, Ints
from warpwatch.dashboard.store.points import batches
from warpwatch.dashboard.store.project_points import Flags, ProjectPoints, points_of_series, runs_of

_SERIES_AT_ONCE = 1000  # whose points are in memory as they were read, those of other commits among them


@dataclass(frozen=True, slots=True, eq=False)
class SeriesPoints:
    """One series' points, by commit, then by run; rows are made of those alone that somebody asks for."""

    series: int
    ends: Sequence[PointRow]  # those at the two commits
    has_reruns: bool  # a commit may have several numbers
    _all: ProjectPoints
    _its: slice  # of all points
    _wanted: Flags  # of all points
    _rows: list[PointRow] = field(default_factory=list)

    def rows(self) -> list[PointRow]:
        """All of them."""
        if not self._rows:
            at = self._its.start + np.flatnonzero(self._wanted[self._its])
            self._rows.extend(self._all.calendar.as_rows([self.series] * len(at), self._all.points.take(at)))
        return self._rows

    def levels(self, card: str | None) -> tuple[Ints, Floats]:
        """Each commit that has a number of the card (None: of any), in order, and the median of its numbers."""
        its = self._its
        at = self._wanted[its] & self._all.has_number[its]
        points, whole = self._all.points, self._all.calendar
        if card is not None:
            run = np.searchsorted(whole.runs, points.run[its])
            at &= whole.card[run] == whole.cards.index(card) + 1
        commit, value = points.commit[its][at], points.value[its][at]
        if not self.has_reruns:
            return commit, value
        groups = itertools.groupby(zip(commit.tolist(), value.tolist(), strict=True), key=lambda pair: pair[0])
        level_of = {number: median(each for _, each in group) for number, group in groups}
        return np.array([*level_of], dtype=np.int64), np.array([*level_of.values()], dtype=np.float64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Around:
    """The commits at and around two, and the series that have a point at one of the two."""

    commits: Sequence[int]
    series: Mapping[int, SeriesPoints]


def points_around(
    connection: Connection, project: int, ids: Collection[int], ends: Collection[int], reach: int,
    held: ProjectPoints | None,
) -> Around:  # fmt: skip
    """The points of these series at the `ends`, and of the `reach` commits before and after the newest of these.

    They are taken from those that are `held`; where none are they are read.
    """
    whole = held.calendar if held is not None else calendar(connection, project)
    is_end = np.isin(whole.commits, list(ends))
    placed = whole.position[is_end & (whole.position < NOT_PLACED)]
    wanted = is_end | (np.abs(whole.position - placed.max(initial=0)) <= reach)
    commits = whole.commits[wanted].tolist()
    if held is not None:
        return Around(commits=commits, series=_around(held, ids, ends, commits))
    found: dict[int, SeriesPoints] = {}
    runs = runs_of(connection, commits)
    if runs is not None:
        for some in batches(list(ids), _SERIES_AT_ONCE):
            read = points_of_series(connection, whole, some, runs=runs)
            found |= _around(_only(read, commits), some, ends, commits)
    return Around(commits=commits, series=found)


def _only(read: ProjectPoints, commits: Collection[int]) -> ProjectPoints:
    """Of these commits alone, so that the rest need not stay in memory."""
    kept = np.flatnonzero(read.at(commits))
    ends = np.searchsorted(kept, read.starts)
    some = np.diff(ends) > 0
    return ProjectPoints(read.calendar, read.series[some], np.append(ends[:-1][some], ends[-1]), read.points.take(kept))


def _around(
    every: ProjectPoints, ids: Collection[int], ends: Collection[int], commits: Collection[int]
) -> dict[int, SeriesPoints]:  # fmt: skip
    """Of the given `commits`, for those of the series with a point at one of the `ends`."""
    at_ends = np.flatnonzero(every.at(ends))
    whose = np.searchsorted(every.starts, at_ends, side="right") - 1
    asked = np.isin(every.series, list(ids))[whose]
    at_ends, whose = at_ends[asked], whose[asked]
    wanted = every.at(commits)
    rows = every.calendar.as_rows(every.series[whose].tolist(), every.points.take(at_ends))
    places, starts = np.unique(whose, return_index=True)
    bounds = itertools.pairwise([*starts.tolist(), len(rows)])
    slices = map(slice, every.starts[places].tolist(), every.starts[places + 1].tolist())
    described = zip(every.series[places].tolist(), every.is_again[places].tolist(), slices, bounds, strict=True)
    return {
        number: SeriesPoints(number, rows[start:end], again, every, its, wanted)
        for number, again, its, (start, end) in described
    }

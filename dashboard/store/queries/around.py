"""The points of many series at and around two commits, read at once: a record a point would be too slow for thousands.

All series stand one after the other in the same columns; what is asked of each is a slice of them.
"""

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, func, select

from warpwatch.dashboard.store import tables
from warpwatch.dashboard.store.calendar import NOT_PLACED, Calendar, PointRow, calendar
from warpwatch.dashboard.store.choosing import is_among
from warpwatch.dashboard.store.columns import Columns, Floats, Ints, decode, join
from warpwatch.dashboard.store.points import Runs, batches, read_stretches

_SERIES_AT_ONCE = 1000  # whose points are in memory as they were read, those of other commits among them
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class SeriesPoints:
    """One series' points, by commit, then by run; rows are made of those alone that somebody asks for.

    The columns are slices of those of many series.
    """

    series: int
    ends: Sequence[PointRow]  # those at the two commits
    has_reruns: bool  # a commit has several numbers
    commit: Ints  # of each point with a number, in order
    value: Floats
    card: Ints  # Calendar.card
    _calendar: Calendar
    _points: Columns
    _rows: list[PointRow] = field(default_factory=list)

    def rows(self) -> list[PointRow]:
        """All of them."""
        if not self._rows:
            self._rows.extend(self._calendar.rows(self.series, self._points))
        return self._rows

    def levels(self, card: str | None) -> dict[int, float]:
        """The median of each commit that has a number of the card (None: of any), in order."""
        commit, value = self.commit, self.value
        if card is not None:
            its = self.card == self._calendar.cards.index(card) + 1
            commit, value = commit[its], value[its]
        pairs = zip(commit.tolist(), value.tolist(), strict=True)
        if not self.has_reruns:
            return dict(pairs)
        groups = itertools.groupby(pairs, key=lambda pair: pair[0])
        return {number: median(each for _, each in group) for number, group in groups}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Around:
    """The commits at and around two, and the series that have a point at one of the two."""

    commits: Sequence[int]
    series: Mapping[int, SeriesPoints]


def points_around(
    connection: Connection, project: int, ids: Collection[int], ends: Collection[int], reach: int
) -> Around:  # fmt: skip
    """The points of these series at the `ends`, and of the `reach` commits before and after the newest of these."""
    whole = calendar(connection, project)
    is_end = np.isin(whole.commits, list(ends))
    placed = whole.position[is_end & (whole.position < NOT_PLACED)]
    wanted = is_end | (np.abs(whole.position - placed.max(initial=0)) <= reach)
    commits = whole.commits[wanted].tolist()
    found: dict[int, SeriesPoints] = {}
    runs = _runs_of(connection, commits)
    if runs is not None:
        for some in batches(list(ids), _SERIES_AT_ONCE):
            found |= _read(connection, whole, some, runs, wanted, is_end)
    return Around(commits=commits, series=found)


def _read(
    connection: Connection, whole: Calendar, ids: Sequence[int], runs: Runs, wanted: Flags, is_end: Flags
) -> dict[int, SeriesPoints]:  # fmt: skip
    """Of the `wanted` commits, for series with a point where `is_end` says so; both have a place for each commit."""
    stretches = [(number, decode(data)) for number, data in read_stretches(connection, ids, runs=runs)]
    if not stretches:
        return {}
    series = np.repeat([number for number, _ in stretches], [len(points) for _, points in stretches])
    points = join([points for _, points in stretches])
    commit = np.searchsorted(whole.commits, points.commit)
    kept = np.flatnonzero(wanted[commit] & np.isin(series, np.unique(series[is_end[commit]])))
    series, points, commit = series[kept], points.take(kept), commit[kept]
    run = np.searchsorted(whole.runs, points.run)
    order = np.lexsort((points.run, whole.started_ms[run], whole.date_ms[commit], whole.position[commit], series))
    return _split(whole, series[order], points.take(order), is_end[commit[order]], whole.card[run[order]])


def _runs_of(connection: Connection, commits: Collection[int]) -> Runs | None:
    """A range that holds every run of these commits."""
    run = tables.run
    wanted = select(func.min(run.c.id), func.max(run.c.id)).where(is_among(connection, run.c.commit_id, commits))
    first, last = connection.execute(wanted).one()
    return Runs(first=first, last=last) if first is not None else None


def _split(whole: Calendar, series: Ints, points: Columns, is_end: Flags, card: Ints) -> dict[int, SeriesPoints]:
    """Cuts the columns, which are in order of the series."""
    rows: dict[int, list[PointRow]] = {}
    for row in whole.as_rows(series[is_end].tolist(), points.take(is_end)):
        rows.setdefault(row.series_id, []).append(row)
    ids, starts = np.unique(series, return_index=True)
    has_number = ~np.isnan(points.value)
    numbers = np.concatenate([[0], np.cumsum(has_number)])  # before each point
    commit, value, card = points.commit[has_number], points.value[has_number], card[has_number]
    again = np.flatnonzero((np.diff(commit) == 0) & (np.diff(series[has_number]) == 0))
    with_reruns = set(series[has_number][again].tolist())
    found = {}
    for number, (start, end) in zip(ids.tolist(), itertools.pairwise([*starts.tolist(), len(series)]), strict=True):
        its = slice(numbers[start], numbers[end])
        found[number] = SeriesPoints(
            number, rows[number], number in with_reruns, commit[its], value[its], card[its], whole,
            points.take(slice(start, end)),
        )  # fmt: skip
    return found

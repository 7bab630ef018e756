"""The commits and runs that points belong to, as columns: what puts points in order."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sqlalchemy import Connection, func, select

from warpwatch.dashboard.store import tables
from warpwatch.dashboard.store.columns import Columns, Ints, optional
from warpwatch.dashboard.store.packed import number_reasons
from warpwatch.dashboard.store.points import Runs, batches, read_points

_AT_ONCE = 1000  # ids in one query
NOT_PLACED = 2**31  # of a commit that is not sorted in yet: the newest


class PointRow(NamedTuple):
    """One point with what its commit and run say of when it was measured, and on which card."""

    series_id: int
    commit_id: int
    run_id: int
    value: float | None
    q25: float | None
    q75: float | None
    sample_count: int | None
    status: int
    reason: str | None
    position: int
    date_ms: int
    started_ms: int | None
    card: str | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Calendar:
    """Commits and runs by id, the ids in order."""

    commits: Ints
    position: Ints
    date_ms: Ints
    runs: Ints
    started_ms: Ints  # -1: not known
    card: Ints  # place in `cards` from one on; 0: not known
    cards: tuple[str, ...]

    def order(self, points: Columns) -> Ints:
        """The places of the points by commit, then by run."""
        commit = np.searchsorted(self.commits, points.commit)
        run = np.searchsorted(self.runs, points.run)
        return np.lexsort((points.run, self.started_ms[run], self.date_ms[commit], self.position[commit]))

    def rows(self, series: int, points: Columns, *, positions: tuple[int, int] | None = None) -> list[PointRow]:
        """The points by commit, then by run; with `positions`, those of the commits from one to the other."""
        order = self.order(points)
        commit = np.searchsorted(self.commits, points.commit)
        run = np.searchsorted(self.runs, points.run)
        if positions is not None:
            place = self.position[commit[order]]
            order = order[(positions[0] <= place) & (place <= positions[1])]
        points, commit, run = points.take(order), commit[order], run[order]
        columns = (points.value, points.q25, points.q75)
        value, q25, q75 = (optional(column, np.isnan(column)) for column in columns)
        started = self.started_ms[run]
        reasons, cards = (None, *points.reasons), (None, *self.cards)
        reason = [reasons[n] for n in points.reason.tolist()]
        card = [cards[n] for n in self.card[run].tolist()]
        return [
            PointRow(series, *each)
            for each in zip(
                points.commit.tolist(), points.run.tolist(), value, q25, q75,
                optional(points.count, points.count < 0), points.status.tolist(), reason,
                self.position[commit].tolist(), self.date_ms[commit].tolist(),
                optional(started, started < 0), card,
                strict=True,
            )
        ]  # fmt: skip


class ProjectCalendar:
    """The calendar of a project, read again when there are new commits or runs."""

    def __init__(self, project: int) -> None:
        self._project = project
        self._newest: tuple[int | None, int | None] | None = None
        self._known: Calendar | None = None

    def read(self, connection: Connection) -> Calendar:
        """The calendar with every commit and run that this transaction sees."""
        newest = connection.execute(
            select(
                select(func.max(tables.commit.c.id)).scalar_subquery(),
                select(func.max(tables.run.c.id)).scalar_subquery(),
            )
        ).one()
        if self._known is None or self._newest != tuple(newest):
            self._known, self._newest = calendar(connection, self._project), (newest[0], newest[1])
        return self._known


def calendar(
    connection: Connection, project: int, *, commits: Collection[int] | None = None, runs: Collection[int] | None = None
) -> Calendar:  # fmt: skip
    """The calendar of a project, or of these of its commits and runs."""
    commit, run = tables.commit, tables.run
    its_commits = _read(connection, project, commit, commits, commit.c.position, commit.c.date_ms)
    its_runs = _read(connection, project, run, runs, run.c.started_ms, run.c.card)
    card, cards = number_reasons(row.card for row in its_runs)
    return Calendar(
        commits=np.array([row.id for row in its_commits], dtype=np.int64),
        position=_numbers([row.position for row in its_commits], NOT_PLACED),
        date_ms=np.array([row.date_ms for row in its_commits], dtype=np.int64),
        runs=np.array([row.id for row in its_runs], dtype=np.int64),
        started_ms=_numbers([row.started_ms for row in its_runs], -1),
        card=card,
        cards=cards,
    )


def histories(
    connection: Connection, project: int, series: Collection[int], *, runs: Runs | None = None
) -> tuple[dict[int, Columns], Calendar]:
    """The points of series of one project, and the calendar that puts them in order."""
    points = read_points(connection, series, runs=runs)
    every = list(points.values())
    wanted = [
        np.unique(np.concatenate([getattr(each, name) for each in every])).tolist() if every else []
        for name in ("commit", "run")
    ]
    return points, calendar(connection, project, commits=wanted[0], runs=wanted[1])


def read_rows(connection: Connection, project: int, series: Collection[int]) -> dict[int, list[PointRow]]:
    """The points of series of one project, by commit, then by run."""
    points, its_calendar = histories(connection, project, series)
    return {number: its_calendar.rows(number, each) for number, each in points.items()}


def _read(connection: Connection, project: int, table: Any, ids: Collection[int] | None, *columns: Any) -> list[Any]:
    query = select(table.c.id, *columns).order_by(table.c.id)
    if ids is None:
        return list(connection.execute(query.where(table.c.project_id == project)))
    found: list[Any] = []
    for some in batches(sorted(ids), _AT_ONCE):
        found += connection.execute(query.where(table.c.id.in_(some)))
    return found


def _numbers(numbers: list[int | None], absent: int) -> Ints:
    return np.array([absent if number is None else number for number in numbers], dtype=np.int64)

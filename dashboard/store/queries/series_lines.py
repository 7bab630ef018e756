"""Histories in columns and in the project's order, and records of a few of their points."""

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, select

from ...model.series import Commit, Point, Status
from .. import schema
from ..chunks import Columns, Ints
from ..commit_index import Calendar, ProjectCalendar
from ..engine import Store
from ..mappers import COMMIT_COLUMNS, commit_of, moment
from ..points import read_points
from ..statements import STATUS_CODES, STATUS_OF_CODE, is_among

# The order of a project's commits, kept between requests: reading it takes longer than reading a history.


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ProjectOrder:
    """A project's calendar, and where each of its commits stands."""

    calendar: Calendar
    rank: Ints  # of each of `calendar.commits` among those with results
    among_all: Ints  # and among all of the repository, as far as they are counted

    def ranks(self, commits: Ints) -> Ints:
        """The ranks of commits by their ids."""
        return self.rank[np.searchsorted(self.calendar.commits, commits)]


class _Known:
    """What this process has read of one project."""

    def __init__(self, project: int) -> None:
        self._project = project
        self._calendar = ProjectCalendar(project)
        self._order: ProjectOrder | None = None
        self._lock = threading.Lock()

    def read(self, connection: Connection) -> ProjectOrder:
        with self._lock:
            calendar = self._calendar.read(connection)
            if self._order is None or self._order.calendar is not calendar:
                self._order = _order(connection, self._project, calendar)
            return self._order


_known: WeakKeyDictionary[Store, dict[int, _Known]] = WeakKeyDictionary()


def project_order(store: Store, connection: Connection, project: int) -> ProjectOrder:
    """The order as this transaction sees it."""
    return _known.setdefault(store, {}).setdefault(project, _Known(project)).read(connection)


def _order(connection: Connection, project: int, calendar: Calendar) -> ProjectOrder:
    commit = schema.commit
    gaps = connection.execute(
        select(commit.c.unmeasured_before).where(commit.c.project_id == project).order_by(commit.c.id)
    ).scalars()
    gap = np.array([each or 0 for each in gaps], dtype=np.int64)
    order = np.lexsort((calendar.commits, calendar.date_ms, calendar.position))
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    among_all = np.empty(len(order), dtype=np.int64)
    among_all[order] = np.cumsum(1 + gap[order]) - 1
    return ProjectOrder(calendar=calendar, rank=rank, among_all=among_all)


_OK = STATUS_CODES[Status.OK]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Line:
    """One series' points by commit, then by run."""

    points: Columns
    rank: Ints  # of each point's commit

    @property
    def has_number(self) -> NDArray[np.bool_]:
        return (self.points.status == _OK) & ~np.isnan(self.points.value)

    def whole_commits(self, kept: Ints) -> Ints:
        """The places of all points of the commits of these points: a commit's value is the median of its runs."""
        return np.flatnonzero(np.isin(self.rank, self.rank[kept]))


_NOTHING = np.empty(0, dtype=np.int64)
_NO_NUMBERS = np.empty(0, dtype=np.float64)
EMPTY = Line(
    points=Columns(
        commit=_NOTHING,
        run=_NOTHING,
        value=_NO_NUMBERS,
        q25=_NO_NUMBERS,
        q75=_NO_NUMBERS,
        count=_NOTHING,
        status=_NOTHING,
        reason=_NOTHING,
    ),
    rank=_NOTHING,
)


def lines(connection: Connection, order: ProjectOrder, ids: Sequence[int]) -> dict[int, Line]:
    """By series; those without points are left out."""
    found = {}
    for number, points in read_points(connection, ids).items():
        points = points.take(order.calendar.order(points))
        found[number] = Line(points=points, rank=order.ranks(points.commit))
    return found


class Records:
    """Makes the records of points that were asked for, with one query for their commits and one for their runs."""

    def __init__(
        self,
        connection: Connection,
        wanted: Iterable[tuple[Line, Ints]],
        more_commits: Iterable[int] = (),
    ) -> None:
        wanted = list(wanted)
        commits = {int(n) for line, places in wanted for n in np.unique(line.points.commit[places])}
        commit = schema.commit
        among = is_among(connection, commit.c.id, commits | set(more_commits))
        rows = connection.execute(select(commit.c.id, commit.c.position, *COMMIT_COLUMNS).where(among))
        self.commits: Mapping[int, Commit] = {number: commit_of(*told) for number, *told in rows.all()}
        runs = np.unique(np.concatenate([np.empty(0, dtype=np.int64), *(ln.points.run[pl] for ln, pl in wanted)]))
        run = schema.run
        query = select(run.c.id, run.c.name, run.c.started_ms, run.c.card)
        self._runs: Mapping[int, Any] = {
            row.id: row for row in connection.execute(query.where(is_among(connection, run.c.id, runs.tolist()))).all()
        }

    def points(self, line: Line, places: Ints) -> tuple[Point, ...]:
        """The points at these places of the line."""
        some = line.points.take(places)
        reasons = (None, *some.reasons)
        columns = [
            [None if gap else number for number, gap in zip(column.tolist(), np.isnan(column).tolist(), strict=True)]
            for column in (some.value, some.q25, some.q75)
        ]
        rows = zip(
            some.commit.tolist(),
            some.run.tolist(),
            *columns,
            some.count.tolist(),
            some.status.tolist(),
            some.reason.tolist(),
            strict=True,
        )
        return tuple(
            [
                Point(
                    commit=self.commits[commit],
                    value=value,
                    q25=q25,
                    q75=q75,
                    sample_count=count if count >= 0 else None,
                    status=STATUS_OF_CODE[status],
                    reason=reasons[reason],
                    run=self._runs[run].name,
                    run_time=moment(self._runs[run].started_ms),
                    gpu=self._runs[run].card,
                )
                for commit, run, value, q25, q75, count, status, reason in rows
            ]
        )


def points_of(store: Store, connection: Connection, project: int, ids: Sequence[int]) -> dict[int, tuple[Point, ...]]:
    """Records of all points of these series, by commit, then run; series without points are left out."""
    found = lines(connection, project_order(store, connection, project), ids)
    whole = {number: (line, np.arange(len(line.rank))) for number, line in found.items()}
    records = Records(connection, whole.values())
    return {number: records.points(*wanted) for number, wanted in whole.items()}

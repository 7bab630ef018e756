"""Every recorded measurement of a project, series by series, for what takes the whole history elsewhere."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
from sqlalchemy import Connection, select

from warpwatch.dashboard.store import tables
from warpwatch.dashboard.store.calendar import Calendar, calendar
from warpwatch.dashboard.store.columns import Columns
from warpwatch.dashboard.store.measured import Measured, Words
from warpwatch.dashboard.store.points import batches, read_points
from warpwatch.dashboard.store.reading import chosen_series, project_id, series_record, workloads
from warpwatch.dashboard.store.records import Series
from warpwatch.dashboard.store.rows import STATUS_OF_CODE
from warpwatch.dashboard.store.store import Store

_SERIES_AT_ONCE = 50  # so that memory holds few of them, and a query serves more than one
_STATUSES = tuple(STATUS_OF_CODE[code].value for code in range(len(STATUS_OF_CODE)))


def measurements(
    store: Store, project: str, *, benchmark: str = "", metric: str | None = None, machine: str | None = None,
    since: datetime | None = None,
) -> Iterator[Measured]:  # fmt: skip
    """The series by name, each with its measurements in the project's order, in one state of the database.

    Only benchmarks whose name holds `benchmark` (letter case aside), of that metric and machine, at commits dated
    `since` then; series that have nothing left are passed over. A read transaction stays open until the end.
    """
    with store.read() as connection:
        owner = project_id(connection, project)
        if owner is None:
            return
        found = chosen_series(connection, owner, benchmark=benchmark, metric=metric, machine=machine)
        known = workloads(connection, owner)
        names = _names(connection, owner)
        for rows in batches(found, _SERIES_AT_ONCE):
            points = read_points(connection, [row.id for row in rows])
            for row in rows:
                if row.id in points:
                    measured = _measured(series_record(row, known), points[row.id], names, since)
                    if len(measured):
                        yield measured


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Names:
    """A project's commits and runs with what they are called, each in the order of the calendar's."""

    calendar: Calendar
    hashes: Sequence[str]
    runs: Sequence[str]


def _names(connection: Connection, project: int) -> _Names:
    commit, run = tables.commit, tables.run
    hashes = select(commit.c.hash).where(commit.c.project_id == project).order_by(commit.c.id)
    runs = select(run.c.name).where(run.c.project_id == project).order_by(run.c.id)
    return _Names(
        calendar=calendar(connection, project),
        hashes=connection.execute(hashes).scalars().all(),
        runs=connection.execute(runs).scalars().all(),
    )


def _measured(series: Series, points: Columns, names: _Names, since: datetime | None) -> Measured:
    known = names.calendar
    points = points.take(known.order(points))
    if since is not None:
        points = points.take(known.date_ms[np.searchsorted(known.commits, points.commit)] >= since.timestamp() * 1000)
    commit, run = np.searchsorted(known.commits, points.commit), np.searchsorted(known.runs, points.run)
    return Measured(
        series=series,
        commit=Words(places=commit, words=names.hashes),
        date_ms=known.date_ms[commit],
        position=known.position[commit],
        run=Words(places=run, words=names.runs),
        started_ms=known.started_ms[run],
        card=Words(places=known.card[run] - 1, words=known.cards),
        value=points.value,
        q25=points.q25,
        q75=points.q75,
        sample_count=points.count,
        status=Words(places=points.status, words=_STATUSES),
        reason=Words(places=points.reason - 1, words=points.reasons),
    )

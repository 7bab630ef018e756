"""Measurements and changes of a project, series by series, for exports."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
from sqlalchemy import Connection, select

from ...model.changepoint import Regression
from ...model.series import Series
from .. import schema
from ..chunks import Columns
from ..column_records import Measured, TextColumn
from ..commit_index import CommitIndex, read_commit_index
from ..engine import Store
from ..mappers import changes_of, chosen_series, episodes_of, project_id, series_record, workloads
from ..points import batches, read_points
from ..statements import STATUS_OF_CODE

# Everything that is told of a project's series beside their values: changepoints and episodes, for what takes them
# elsewhere.

_CHANGED_SERIES_AT_ONCE = 500


def changes(
    store: Store,
    project: str,
    *,
    benchmark: str = "",
    metric: str | None = None,
    machine: str | None = None,
    since: datetime | None = None,
) -> Iterator[Regression]:
    """Changes of every kind, for the worse or the better, series by series as `measurements` has them, in order.

    A read transaction stays open until the end.
    """
    with store.read() as connection:
        owner = project_id(connection, project)
        if owner is None:
            return
        found = chosen_series(connection, owner, benchmark=benchmark, metric=metric, machine=machine)
        known = workloads(connection, owner)
        for rows in batches(found, _CHANGED_SERIES_AT_ONCE):
            ids = [row.id for row in rows]
            levels, episodes = changes_of(connection, ids), episodes_of(connection, ids)
            for row in rows:
                told = (*levels.get(row.id, ()), *episodes.get(row.id, ()))
                for change in sorted(told, key=lambda each: each.index):
                    if since is None or change.commit.date >= since:
                        yield Regression(series=series_record(row, known), change=change)


_SERIES_AT_ONCE = 50  # so that memory holds few of them, and a query serves more than one
_STATUSES = tuple(STATUS_OF_CODE[code].value for code in range(len(STATUS_OF_CODE)))


def measurements(
    store: Store,
    project: str,
    *,
    benchmark: str = "",
    metric: str | None = None,
    machine: str | None = None,
    since: datetime | None = None,
) -> Iterator[Measured]:
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
    """A project's commits and runs with what they are called, each in the order of the commit_index's."""

    commit_index: CommitIndex
    hashes: Sequence[str]
    runs: Sequence[str]


def _names(connection: Connection, project: int) -> _Names:
    commit, run = schema.commit, schema.run
    hashes = select(commit.c.hash).where(commit.c.project_id == project).order_by(commit.c.id)
    runs = select(run.c.name).where(run.c.project_id == project).order_by(run.c.id)
    return _Names(
        commit_index=read_commit_index(connection, project),
        hashes=connection.execute(hashes).scalars().all(),
        runs=connection.execute(runs).scalars().all(),
    )


def _measured(series: Series, points: Columns, names: _Names, since: datetime | None) -> Measured:
    known = names.commit_index
    points = points.take(known.order(points))
    if since is not None:
        points = points.take(known.date_ms[np.searchsorted(known.commits, points.commit)] >= since.timestamp() * 1000)
    commit, run = np.searchsorted(known.commits, points.commit), np.searchsorted(known.runs, points.run)
    return Measured(
        series=series,
        commit=TextColumn(places=commit, words=names.hashes),
        date_ms=known.date_ms[commit],
        position=known.position[commit],
        run=TextColumn(places=run, words=names.runs),
        started_ms=known.started_ms[run],
        card=TextColumn(places=known.gpu[run] - 1, words=known.gpus),
        value=points.value,
        q25=points.q25,
        q75=points.q75,
        sample_count=points.count,
        status=TextColumn(places=points.status, words=_STATUSES),
        reason=TextColumn(places=points.reason - 1, words=points.reasons),
    )

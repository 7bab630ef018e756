"""A series, and its whole history."""

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from sqlalchemy import Column, Connection, select

from warpwatch.dashboard.store import tables
from warpwatch.dashboard.store.calendar import calendar_of
from warpwatch.dashboard.store.choosing import is_among
from warpwatch.dashboard.store.columns import Columns
from warpwatch.dashboard.store.points import read_points
from warpwatch.dashboard.store.queries.relatives import canaries_of, others_of, profile_of
from warpwatch.dashboard.store.reading import (
    COMMIT_COLUMNS,
    changes_of,
    commit_of,
    episodes_of,
    moment,
    select_series,
    series_record,
    workload_of,
    workloads,
)
from warpwatch.dashboard.store.records import History, OtherHistory, Point, Series
from warpwatch.dashboard.store.rows import STATUS_OF_CODE
from warpwatch.dashboard.store.store import Store


def series(store: Store, key: str) -> Series | None:
    """The series of that key."""
    with store.read() as connection:
        row = connection.execute(select_series().where(tables.series.c.key == key)).one_or_none()
        return series_record(row, workloads(connection, row.project_id)) if row is not None else None


def history(store: Store, key: str) -> History | None:
    """A series with what stands beside it: its workload's other implementations, its machine's canaries, a profile."""
    with store.read() as connection:
        row = connection.execute(select_series().where(tables.series.c.key == key)).one_or_none()
        if row is None:
            return None
        known = workloads(connection, row.project_id)
        found = series_record(row, known)
        others = others_of(connection, row, known)
        canaries = canaries_of(connection, row, found, known)
        points = points_of(connection, [row.id, *(number for number, _ in (*others, *canaries))])
        return History(
            series=found,
            points=points.get(row.id, ()),
            changes=changes_of(connection, [row.id]).get(row.id, ()),
            workload=workload_of(found, known),
            others=tuple(OtherHistory(series=other, points=points.get(number, ())) for number, other in others),
            canaries=tuple(
                OtherHistory(series=other, points=points[number]) for number, other in canaries if number in points
            ),
            profile=profile_of(connection, row, found),
            episodes=episodes_of(connection, [row.id]).get(row.id, ()),
        )


def points_of(connection: Connection, ids: Collection[int]) -> dict[int, tuple[Point, ...]]:
    """The points of series, by commit, then run time; series without points are left out."""
    columns = read_points(connection, ids)
    if not columns:
        return {}
    commit, run = tables.commit, tables.run
    commit_rows = _rows_of(connection, columns.values(), "commit", (commit.c.id, commit.c.position, *COMMIT_COLUMNS))
    run_rows = _rows_of(connection, columns.values(), "run", (run.c.id, run.c.started_ms, run.c.card, run.c.name))
    commits = {row[0]: commit_of(*row[1:]) for row in commit_rows}
    runs = {row[0]: (row[3], moment(row[1])) for row in run_rows}
    calendar = calendar_of(commit_rows, run_rows)
    return {
        number: tuple(
            [
                Point(
                    commit=commits[commit_id], value=value, q25=q25, q75=q75, sample_count=count,
                    status=STATUS_OF_CODE[status], reason=reason, run=runs[run_id][0], run_time=runs[run_id][1],
                    card=card,
                )
                for _, commit_id, run_id, value, q25, q75, count, status, reason, _, _, _, card in calendar.rows(
                    number, each
                )
            ]
        )
        for number, each in columns.items()
    }  # fmt: skip


def _rows_of(
    connection: Connection, points: Collection[Columns], name: str, columns: Sequence[Column[Any]]
) -> Sequence[tuple[Any, ...]]:  # fmt: skip
    """The rows of the commits or runs of points, in the order of their ids. The id is the first column."""
    ids = np.unique(np.concatenate([getattr(each, name) for each in points])).tolist()
    query = select(*columns).where(is_among(connection, columns[0], ids)).order_by(columns[0])
    return connection.execute(query).all()

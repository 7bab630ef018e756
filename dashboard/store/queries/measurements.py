"""Every recorded measurement of a project, series by series, for what takes the whole history elsewhere."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from warpwatch.dashboard.store import tables
from warpwatch.dashboard.store.queries.reading import project_id, select_series, series_record, workloads
from warpwatch.dashboard.store.queries.series import points_of
from warpwatch.dashboard.store.records import Measured
from warpwatch.dashboard.store.store import Store

_SERIES_AT_ONCE = 50  # so that memory holds few of them, and a query serves more than one


def measurements(
    store: Store, project: str, *, benchmark: str = "", metric: str | None = None, machine: str | None = None,
    since: datetime | None = None,
) -> Iterator[Measured]:  # fmt: skip
    """The series by name, each with its points in the project's order, in one state of the database.

    Only benchmarks whose name holds `benchmark` (letter case aside), of that metric and machine, at commits dated
    `since` then; series that have nothing left are passed over. A read transaction stays open until the end.
    """
    series = tables.series
    with store.read() as connection:
        owner = project_id(connection, project)
        if owner is None:
            return
        where: list[Any] = [series.c.project_id == owner, tables.benchmark.c.name.icontains(benchmark, autoescape=True)]
        if metric is not None:
            where.append(series.c.metric == metric)
        if machine is not None:
            where.append(tables.machine.c.name == machine)
        found = connection.execute(select_series().where(*where).order_by(tables.benchmark.c.name, series.c.id)).all()
        known = workloads(connection, owner)
        for start in range(0, len(found), _SERIES_AT_ONCE):
            rows = found[start : start + _SERIES_AT_ONCE]
            points = points_of(connection, owner, [row.id for row in rows])
            for row in rows:
                kept = tuple(point for point in points.get(row.id, ()) if since is None or point.commit.date >= since)
                if kept:
                    yield Measured(series=series_record(row, known), points=kept)

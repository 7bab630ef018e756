"""Everything that is told of a project's series beside their values: changepoints and episodes, for what takes them
elsewhere."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from warpwatch.dashboard.store import tables
from warpwatch.dashboard.store.points import batches
from warpwatch.dashboard.store.queries.reading import (
    changes_of,
    episodes_of,
    project_id,
    select_series,
    series_record,
    workloads,
)
from warpwatch.dashboard.store.records import Regression
from warpwatch.dashboard.store.store import Store

_SERIES_AT_ONCE = 500


def changes(
    store: Store, project: str, *, benchmark: str = "", metric: str | None = None, machine: str | None = None,
    since: datetime | None = None,
) -> Iterator[Regression]:  # fmt: skip
    """Changes of every kind, for the worse or the better, series by series as `measurements` has them, in order.

    A read transaction stays open until the end.
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
        for rows in batches(found, _SERIES_AT_ONCE):
            ids = [row.id for row in rows]
            levels, episodes = changes_of(connection, ids), episodes_of(connection, ids)
            for row in rows:
                told = (*levels.get(row.id, ()), *episodes.get(row.id, ()))
                for change in sorted(told, key=lambda each: each.index):
                    if since is None or change.commit.date >= since:
                        yield Regression(series=series_record(row, known), change=change)

"""Everything that is told of a project's series beside their values: changepoints and episodes, for what takes them
elsewhere."""

from collections.abc import Iterator
from datetime import datetime

from warpwatch.dashboard.store.points import batches
from warpwatch.dashboard.store.reading import (
    changes_of,
    chosen_series,
    episodes_of,
    project_id,
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
    with store.read() as connection:
        owner = project_id(connection, project)
        if owner is None:
            return
        found = chosen_series(connection, owner, benchmark=benchmark, metric=metric, machine=machine)
        known = workloads(connection, owner)
        for rows in batches(found, _SERIES_AT_ONCE):
            ids = [row.id for row in rows]
            levels, episodes = changes_of(connection, ids), episodes_of(connection, ids)
            for row in rows:
                told = (*levels.get(row.id, ()), *episodes.get(row.id, ()))
                for change in sorted(told, key=lambda each: each.index):
                    if since is None or change.commit.date >= since:
                        yield Regression(series=series_record(row, known), change=change)

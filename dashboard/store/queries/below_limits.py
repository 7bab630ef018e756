"""Steps that are too small to count by the limits that a project states: detected, and nobody is called to them."""

from collections.abc import Collection

from sqlalchemy import Connection

from warpwatch.dashboard.statistics.change_kind import ChangeKind
from warpwatch.dashboard.store import tables
from warpwatch.dashboard.store.choosing import is_among
from warpwatch.dashboard.store.reading import Workloads, select_series, series_record
from warpwatch.dashboard.store.stated_limits import read_stated

BelowLimits = frozenset[tuple[int, int]]
"""By the ids of series and commit."""


def below_limits(
    connection: Connection, owner: int, known: Workloads, series: Collection[int] | None = None
) -> BelowLimits:  # fmt: skip
    """Those of a project's steps, or of some series'. What states no threshold and no floor counts from nothing on: a
    history tells smaller steps than two commits do, and the dashboard's own threshold is for those.
    """
    stated = read_stated(connection, owner)
    if stated is None or (series is not None and not series):
        return frozenset()
    from warpwatch.dashboard.limit_rules.series_limits import series_limits  # as stated_limits.py does

    limits = series_limits(stated, known, threshold=0.0)
    change = tables.changepoint
    steps = [ChangeKind.STEP.value, ChangeKind.MAY_BE_CHANCE.value]
    where = [tables.series.c.project_id == owner, change.c.kind.in_(steps)]
    if series is not None:
        where.append(is_among(connection, change.c.series_id, series))
    rows = connection.execute(
        select_series(change.c.commit_id, change.c.before, change.c.after, change.c.magnitude)
        .join(change, change.c.series_id == tables.series.c.id)
        .where(*where)
    )
    return frozenset(
        (row.id, row.commit_id)
        for row in rows
        if not limits(series_record(row, known)).counts(row.before, row.after, row.magnitude)
    )

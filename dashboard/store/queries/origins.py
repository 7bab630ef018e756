"""Where a value comes from: the run's machine and software, and what was noted while it was measured."""

from typing import Any

from sqlalchemy import Connection, select

from warpwatch.dashboard.store import tables
from warpwatch.dashboard.store.reading import moment, select_series
from warpwatch.dashboard.store.records import Origin
from warpwatch.dashboard.store.store import Store


def origin(store: Store, key: str, run: str) -> Origin | None:
    """What the run of that name recorded for the series; None without a context file."""
    with store.read() as connection:
        row = connection.execute(select_series().where(tables.series.c.key == key)).one_or_none()
        return origin_of(connection, row, run) if row is not None else None


def origin_of(connection: Connection, series: Any, run: str) -> Origin | None:
    """The same for a row of `select_series`."""
    runs, detail = tables.run, tables.detail
    row = connection.execute(
        select(runs).where(runs.c.project_id == series.project_id, runs.c.name == run)
    ).one_or_none()
    if row is None or not row.context:
        return None
    measuring = connection.execute(
        select(detail.c.data).where(
            detail.c.run_id == row.id,
            detail.c.suite == series.benchmark_name.rpartition(".")[0],
            detail.c.workload == series.workload,
            detail.c.implementation == series.implementation,
        )
    ).scalar()
    return Origin(
        run=row.name,
        started_at=moment(row.started_ms),
        gpu=row.context.get("gpu") or {},
        cpu=row.context.get("cpu") or {},
        software=row.context.get("software") or {},
        measuring=measuring or {},
    )

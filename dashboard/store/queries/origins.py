"""Where a value comes from: the run's machine and software, and what was noted while it was measured."""

from sqlalchemy import select

from warpwatch.dashboard.store import tables
from warpwatch.dashboard.store.queries.reading import moment
from warpwatch.dashboard.store.records import Origin
from warpwatch.dashboard.store.store import Store


def origin(store: Store, key: str, run: str) -> Origin | None:
    """What the run of that name recorded for the series; None without a context file."""
    series, runs, detail = tables.series, tables.run, tables.detail
    with store.read() as connection:
        row = connection.execute(
            select(runs, tables.benchmark.c.name.label("benchmark"), series.c.workload, series.c.implementation)
            .join_from(series, tables.benchmark, tables.benchmark.c.id == series.c.benchmark_id)
            .join(runs, runs.c.project_id == series.c.project_id)
            .where(series.c.key == key, runs.c.name == run)
        ).first()
        if row is None or not row.context:
            return None
        measuring = connection.execute(
            select(detail.c.data).where(
                detail.c.run_id == row.id,
                detail.c.suite == row.benchmark.rpartition(".")[0],
                detail.c.workload == row.workload,
                detail.c.implementation == row.implementation,
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

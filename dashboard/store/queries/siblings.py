"""What else was recorded of the same measurement: bandwidth, cycles, memory beside the latency."""

from sqlalchemy import select

from warpwatch.dashboard.store import tables
from warpwatch.dashboard.store.queries.latest import latest
from warpwatch.dashboard.store.queries.overview import overview_row
from warpwatch.dashboard.store.reading import commits_by_id, workloads
from warpwatch.dashboard.store.records import OverviewRow
from warpwatch.dashboard.store.store import Store


def siblings(store: Store, key: str) -> tuple[OverviewRow, ...]:
    """The series of that key and those of its other metrics, each as it stands; latency first, what is judged next."""
    table = tables.series
    with store.read() as connection:
        row = connection.execute(
            select(table, tables.benchmark.c.name.label("benchmark"))
            .join(tables.benchmark, tables.benchmark.c.id == table.c.benchmark_id)
            .where(table.c.key == key)
        ).one_or_none()
        if row is None:
            return ()
        suite = row.benchmark.rpartition(".")[0]
        found = latest(
            connection,
            workloads(connection, row.project_id),
            table.c.project_id == row.project_id,
            table.c.machine_id == row.machine_id,
            table.c.environment_id == row.environment_id,
            table.c.workload.is_not_distinct_from(row.workload),
            tables.benchmark.c.name.startswith(f"{suite}.", autoescape=True),
        )
        own = next((item.series for item in found if item.series.key == key), None)
        if own is None:
            return ()
        same = [
            item
            for item in found
            if (item.series.suite, item.series.parameters) == (own.suite, own.parameters)
            and (item.series.key == key or item.series.metric.name != own.metric.name)
        ]
        ids = [i for item in same for i in (item.summary.commit_id, item.summary.change_commit_id) if i is not None]
        commits = commits_by_id(connection, ids)
    same.sort(key=lambda item: (not item.series.metric.is_latency, not item.series.metric.is_judged))
    return tuple(overview_row(item, (), commits) for item in same)

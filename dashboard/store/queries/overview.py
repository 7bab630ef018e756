"""The overview: each series that is judged, as it stands."""

from warpwatch.dashboard.metrics import is_primary
from warpwatch.dashboard.store import tables
from warpwatch.dashboard.store.queries.latest import Latest, latest
from warpwatch.dashboard.store.queries.reading import commits_by_id, project_id, workloads
from warpwatch.dashboard.store.records import Commit, OverviewRow
from warpwatch.dashboard.store.store import Store
from warpwatch.dashboard.verdict import Verdict


def overview(store: Store, project: str, *, machine: str | None = None) -> tuple[OverviewRow, ...]:
    """One row for each listed series of a primary metric that is not a baseline's.

    A project none of whose series are primary (memory only, say) shows all its metrics.
    """
    with store.read() as connection:
        owner = project_id(connection, project)
        if owner is None:
            return ()
        where = [tables.series.c.project_id == owner, tables.series.c.listed]
        if machine is not None:
            where.append(tables.machine.c.name == machine)
        found = latest(connection, workloads(connection, owner), *where)
        own = [item for item in found if not item.series.is_baseline]
        shown = [item for item in own if is_primary(item.series.metric.unit)] or own
        ids = [i for item in shown for i in (item.summary.commit_id, item.summary.change_commit_id) if i is not None]
        commits = commits_by_id(connection, ids)
    return tuple(_row(item, commits) for item in shown)


def _row(item: Latest, commits: dict[int, Commit]) -> OverviewRow:
    row = item.summary
    return OverviewRow(
        series=item.series,
        operator=item.workload.operator if item.workload else None,
        value=row.value,
        status=item.status,
        reason=row.reason,
        commit=commits[row.commit_id],
        change=row.change,
        change_commit=commits.get(row.change_commit_id),
        change_is_step=row.change_is_step,
        speed_of_light=item.speed_of_light,
        baseline=item.ratios[0] if item.ratios else None,
        sparkline=tuple(row.sparkline),
        verdict=Verdict(row.verdict),
        newest_run=item.newest_run,
    )

"""What got worse, and when: changepoints of the judged metrics, grouped as one cause would show."""

import itertools

from warpwatch.dashboard.store import tables
from warpwatch.dashboard.store.queries.reading import (
    change_record,
    commits_by_id,
    commits_of_changes,
    project_id,
    select_series,
    series_record,
    workloads,
)
from warpwatch.dashboard.store.records import Regression, RegressionGroup
from warpwatch.dashboard.store.store import Store


def regressions(
    store: Store, project: str, *, machine: str | None = None, limit: int = 100, all_metrics: bool = False
) -> tuple[RegressionGroup, ...]:
    """Changepoints for the worse, grouped by commit and machine, newest first; the largest time first in a group.

    Listed series of judged metrics, or of every metric; those of baselines and canaries are left out, for no commit of
    the project moves them.
    """
    table, series = tables.changepoint, tables.series
    with store.read() as connection:
        owner = project_id(connection, project)
        if owner is None:
            return ()
        where = [series.c.project_id == owner, series.c.listed, table.c.is_worse]
        if machine is not None:
            where.append(tables.machine.c.name == machine)
        change_columns = [column for column in table.c if column.name != "series_id"]
        rows = connection.execute(
            select_series(*change_columns, tables.commit.c.position.label("commit_position"))
            .join(table, table.c.series_id == series.c.id)
            .join(tables.commit, tables.commit.c.id == table.c.commit_id)
            .where(*where)
            .order_by(tables.commit.c.position.desc(), tables.machine.c.name)
        ).all()
        known = workloads(connection, owner)
        commits = commits_by_id(connection, commits_of_changes(rows))
    groups = []
    for (_, name), group in itertools.groupby(rows, key=lambda row: (row.commit_id, row.machine_name)):
        found = [Regression(series=series_record(row, known), change=change_record(row, commits)) for row in group]
        found = [one for one in found if one.series.is_watched and (all_metrics or one.series.metric.is_judged)]
        found.sort(key=lambda one: (not one.series.metric.is_time, -abs(one.change.magnitude)))
        if found:
            newest_good = max((one.change.previous_commit for one in found), key=lambda commit: commit.position)
            groups.append(
                RegressionGroup(
                    project=project, machine=name, commit=found[0].change.commit, previous_commit=newest_good,
                    regressions=tuple(found),
                )
            )  # fmt: skip
    return tuple(groups[:limit])

"""The overview: each workload and implementation that is judged, as it stands."""

import itertools
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, and_, false, or_, select

from warpwatch.dashboard.metrics import metric
from warpwatch.dashboard.statistics.change_kind import ChangeKind
from warpwatch.dashboard.store import tables
from warpwatch.dashboard.store.queries.latest import Latest, latest
from warpwatch.dashboard.store.reading import commits_by_id, project_id, workloads
from warpwatch.dashboard.store.records import Commit, Moved, OverviewRow
from warpwatch.dashboard.store.store import Store
from warpwatch.dashboard.verdict import Verdict


def overview(store: Store, project: str, *, machine: str | None = None) -> tuple[OverviewRow, ...]:
    """One row for each workload and implementation of ours that is listed: its latency, the rest beside it.

    Judged series without a latency have a row each. A project in which nothing is judged (memory only, say) shows all
    its metrics.
    """
    with store.read() as connection:
        owner = project_id(connection, project)
        return () if owner is None else overview_rows(connection, owner, machine=machine)


def overview_rows(connection: Connection, owner: int, *, machine: str | None = None) -> tuple[OverviewRow, ...]:
    """What `overview` tells of the project with that id."""
    where = [tables.series.c.project_id == owner, tables.series.c.listed]
    if machine is not None:
        where.append(tables.machine.c.name == machine)
    known = workloads(connection, owner)
    found = latest(connection, known, *where, _is_judged(connection, owner)) or latest(connection, known, *where)
    shown = headlines([item for item in found if item.series.is_watched])
    ids = [i for item, _ in shown for i in (item.summary.commit_id, item.summary.change_commit_id) if i is not None]
    commits = commits_by_id(connection, ids)
    return tuple(overview_row(item, beside, commits) for item, beside in shown)


def headlines(found: Sequence[Latest]) -> list[tuple[Latest, tuple[Latest, ...]]]:
    """Each series that stands for its measurement, with the other series of it: the latency, else every one alone."""
    shown: list[tuple[Latest, tuple[Latest, ...]]] = []
    for _, group in itertools.groupby(sorted(found, key=_measurement), key=_measurement):
        series = list(group)
        times = [item for item in series if item.series.metric.is_latency] or series
        shown += [(item, tuple(x for x in series if x not in times)) for item in times]
    place = {item.series.key: number for number, item in enumerate(found)}
    return sorted(shown, key=lambda pair: place[pair[0].series.key])


def _measurement(item: Latest) -> tuple[Any, ...]:
    series = item.series
    return (series.suite, series.parameters, series.machine, series.environment)


def _is_judged(connection: Connection, project: int) -> Any:
    """A condition on the project's series: that their metric is judged."""
    series = tables.series
    kinds = connection.execute(select(series.c.metric, series.c.unit).where(series.c.project_id == project).distinct())
    judged = [(name, unit) for name, unit in kinds if metric(name, unit).is_judged]
    return or_(false(), *(and_(series.c.metric == name, series.c.unit == unit) for name, unit in judged))


def overview_row(item: Latest, beside: Sequence[Latest], commits: dict[int, Commit]) -> OverviewRow:
    """A headline with what moved beside it."""
    row = item.summary
    moved = [
        Moved(series=other.series, value=other.summary.value, verdict=other.verdict)
        for other in beside
        if other.verdict in {Verdict.REGRESSED, Verdict.IMPROVED} - {item.verdict}
    ]
    return OverviewRow(
        series=item.series,
        operator=item.operator,
        value=row.value,
        status=item.status,
        reason=row.reason,
        commit=commits[row.commit_id],
        change=row.change,
        change_commit=commits.get(row.change_commit_id),
        change_is_step=row.change_is_step,
        change_kind=ChangeKind(row.change_kind) if row.change_kind is not None else None,
        change_q=row.change_q,
        speed_of_light=item.speed_of_light,
        baseline=item.ratios[0] if item.ratios else None,
        sparkline=tuple(row.sparkline),
        verdict=item.verdict,
        newest_run=item.newest_run,
        beside=tuple(moved),
    )

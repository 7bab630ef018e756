"""What got worse, and when: changes of the judged metrics by kind, grouped as one cause would show."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection

from warpwatch.dashboard.statistics.change_kind import ChangeKind
from warpwatch.dashboard.store import tables
from warpwatch.dashboard.store.queries.below_limits import below_limits as find_below_limits
from warpwatch.dashboard.store.reading import (
    change_record,
    commits_by_id,
    commits_of_changes,
    commits_of_episodes,
    episode_record,
    project_id,
    select_series,
    series_record,
    workloads,
)
from warpwatch.dashboard.store.records import Regression, RegressionGroup
from warpwatch.dashboard.store.store import Store


def regressions(
    store: Store, project: str, *, machine: str | None = None, limit: int = 100, all_metrics: bool = False,
    kind: ChangeKind = ChangeKind.STEP, also: ChangeKind | None = None, below_limits: bool = False,
) -> tuple[RegressionGroup, ...]:  # fmt: skip
    """Changes of a kind or two for the worse, by commit and machine, newest first; a group's largest time first.

    Listed series of judged metrics, or of every metric; those of baselines and canaries are left out, for no commit of
    the project moves them. Steps below the limits that the project states only if asked for.
    """
    # Of all machines: a machine's name may be anybody's invention.
    kinds = (kind,) if also is None else (kind, also)
    asked = ("regressions", all_metrics, kinds)

    def read() -> tuple[RegressionGroup, ...]:
        with store.read() as connection:
            return regressions_in(connection, project, kinds, all_metrics=all_metrics)

    groups = store.cached(project, asked, read)
    kept = (group for group in groups if machine in {None, group.machine})
    return tuple(kept if below_limits else _counting(kept))[:limit]


def _counting(groups: Iterable[RegressionGroup]) -> Iterator[RegressionGroup]:
    for group in groups:
        its = tuple(one for one in group.regressions if one.counts)
        if its:
            yield group if len(its) == len(group.regressions) else replace(group, regressions=its)


def regressions_in(
    connection: Connection, project: str, kinds: Sequence[ChangeKind], *, all_metrics: bool = False
) -> tuple[RegressionGroup, ...]:
    """As `regressions`, all of them, those below the limits too, as this transaction sees them."""
    owner = project_id(connection, project)
    if owner is None:
        return ()
    known = workloads(connection, owner)
    found = []
    if rows := _rows(connection, tables.changepoint, owner, kinds):
        commits = commits_by_id(connection, commits_of_changes(rows))
        below = find_below_limits(connection, owner, known)
        found += [
            Regression(series=series_record(row, known), change=change_record(row, commits),
                       counts=(row.id, row.commit_id) not in below)
            for row in rows
        ]  # fmt: skip
    if rows := _rows(connection, tables.episode, owner, kinds):
        commits = commits_by_id(connection, commits_of_episodes(rows))
        found += [Regression(series=series_record(row, known), change=episode_record(row, commits)) for row in rows]
    found = [one for one in found if one.series.is_watched and (all_metrics or one.series.metric.is_judged)]
    found.sort(key=lambda one: (-one.change.commit.position, one.change.commit.hash, one.series.machine))
    groups = []
    for (_, name), group in itertools.groupby(found, key=lambda one: (one.change.commit, one.series.machine)):
        its = sorted(group, key=lambda one: (not one.series.metric.is_time, -abs(one.change.magnitude)))
        newest_good = max((one.change.previous_commit for one in its), key=lambda commit: commit.position)
        groups.append(
            RegressionGroup(
                project=project, machine=name, commit=its[0].change.commit, previous_commit=newest_good,
                regressions=tuple(its),
            )
        )  # fmt: skip
    return tuple(groups)


def _rows(connection: Connection, table: Any, owner: int, kinds: Sequence[ChangeKind]) -> Any:
    series = tables.series
    is_asked = table.c.kind.in_([kind.value for kind in kinds])
    where = [series.c.project_id == owner, series.c.listed, table.c.is_worse, is_asked]
    columns = [column for column in table.c if column.name != "series_id"]
    return connection.execute(
        select_series(*columns).join(table, table.c.series_id == series.c.id).where(*where).order_by(series.c.id)
    ).all()

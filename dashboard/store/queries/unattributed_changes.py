"""Changes without triage, by commit and machine: not significant steps, machine states, transients and drifts for the
worse, and every kind for the better.

There may be thousands: groups are counted in the database, and those of one page read.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, select

from ...model.changepoint import Regression, RegressionGroup
from ...model.verdict import ChangeKind
from .. import schema
from ..engine import Store
from ..mappers import (
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
from ..statements import id_in
from .regressions import BelowLimits, Watched, below_limits, watched_metrics
from .series_list import matching_ids

_TABLES = {
    ChangeKind.STEP: (schema.changepoint,),
    ChangeKind.NOT_SIGNIFICANT: (schema.changepoint,),
    ChangeKind.MACHINE_STATE: (schema.changepoint, schema.episode),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Filter:
    """Which changes to list."""

    kind: ChangeKind
    is_worse: bool
    below: BelowLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupList:
    """A page of groups, newest first."""

    groups: tuple[RegressionGroup, ...]
    total: int
    any_at_all: bool  # without words and period


def unattributed_changes(
    store: Store,
    project: str,
    kind: ChangeKind,
    *,
    machine: str | None = None,
    words: str = "",
    since: datetime | None = None,
    is_worse: bool = True,
    limit: int = 20,
    offset: int = 0,
) -> GroupList:
    """Groups of changes of one kind, for the worse or the better, of series that match `words`, a query of series."""
    named = matching_ids(store, project, words) if words.split() else None
    with store.read() as connection:
        owner = project_id(connection, project)
        if owner is None:
            return GroupList(groups=(), total=0, any_at_all=False)
        watched = watched_metrics(connection, owner)
        below = (
            below_limits(connection, owner, workloads(connection, owner)) if kind is ChangeKind.STEP else frozenset()
        )
        tables, which = _TABLES.get(kind, (schema.episode,)), _Filter(kind=kind, is_worse=is_worse, below=below)
        all_groups = {place for table in tables for place in _groups(connection, table, owner, which, watched, None)}
        groups = all_groups
        if named is not None:
            groups = {each for table in tables for each in _groups(connection, table, owner, which, watched, named)}
        commits = commits_by_id(connection, {commit for commit, _ in groups})
        of_project = select(schema.machine.c.id, schema.machine.c.name).where(schema.machine.c.project_id == owner)
        names = {row.id: row.name for row in connection.execute(of_project)}
        chosen = [
            (commit, machine_id)
            for commit, machine_id in groups
            if (machine is None or names[machine_id] == machine) and (since is None or commits[commit].date >= since)
        ]
        chosen.sort(key=lambda key: (-commits[key[0]].position, commits[key[0]].hash, names[key[1]]))
        shown = chosen[offset : offset + limit]
        rows = [one for table in tables for one in _regressions(connection, table, owner, which, watched, named, shown)]
        by_group: dict[tuple[int, int], list[Regression]] = {key: [] for key in shown}
        for key, one in rows:
            by_group[key].append(one)
    return GroupList(
        groups=tuple(_group(project, each) for each in by_group.values()),
        total=len(chosen),
        any_at_all=bool(all_groups),
    )


def _group(project: str, changes: Sequence[Regression]) -> RegressionGroup:
    ordered = sorted(changes, key=lambda one: (not one.series.metric.is_time, -abs(one.change.magnitude)))
    return RegressionGroup(
        project=project,
        machine=ordered[0].series.machine,
        commit=ordered[0].change.commit,
        previous_commit=max((one.change.previous_commit for one in ordered), key=lambda commit: commit.position),
        regressions=tuple(ordered),
    )


def _groups(
    connection: Connection, table: Any, owner: int, which: _Filter, watched: Watched, named: frozenset[int] | None
) -> set[tuple[int, int]]:
    """Commit and machine of each group, by id."""
    series = schema.series
    columns = (series.c.benchmark_id, series.c.implementation, series.c.metric, series.c.unit)
    query = (
        select(series.c.id, *columns, table.c.commit_id, series.c.machine_id)
        .join(series, series.c.id == table.c.series_id)
        .where(
            series.c.project_id == owner,
            series.c.listed,
            table.c.is_worse.is_(which.is_worse),
            table.c.kind == which.kind.value,
        )
        .distinct()
    )
    if named is not None:
        query = query.where(id_in(connection, series.c.id, named))
    return {
        (commit, machine)
        for number, *metric_key, commit, machine in connection.execute(query).all()
        if watched(*metric_key) is not None and (number, commit) not in which.below
    }


def _regressions(
    connection: Connection,
    table: Any,
    owner: int,
    which: _Filter,
    watched: Watched,
    named: frozenset[int] | None,
    places: Sequence[tuple[int, int]],
) -> list[tuple[tuple[int, int], Regression]]:
    """The changes of the groups, each with its group's commit and machine."""
    series, wanted = schema.series, set(places)
    columns = [column for column in table.c if column.name != "series_id"]
    rows = [
        row
        for row in connection.execute(
            select_series(*columns)
            .join(table, table.c.series_id == series.c.id)
            .where(
                series.c.project_id == owner,
                series.c.listed,
                table.c.is_worse.is_(which.is_worse),
                table.c.kind == which.kind.value,
                id_in(connection, table.c.commit_id, {commit for commit, _ in places}),
            )
        )
        if (row.commit_id, row.machine_id) in wanted
        and (named is None or row.id in named)
        and (row.id, row.commit_id) not in which.below
        and watched(row.benchmark_id, row.implementation, row.metric, row.unit) is not None
    ]
    known = workloads(connection, owner)
    is_episode = table is schema.episode
    commits = commits_by_id(connection, commits_of_episodes(rows) if is_episode else commits_of_changes(rows))
    record = episode_record if is_episode else change_record
    return [
        ((row.commit_id, row.machine_id), Regression(series=series_record(row, known), change=record(row, commits)))
        for row in rows
    ]

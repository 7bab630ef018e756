"""Changes without triage, by commit and machine: not significant steps, machine states, transients and drifts for the
worse, and every kind for the better.

There may be thousands: groups are counted in the database, and those of one page read.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, Select, Table, select

from ...model.changepoint import Regression, RegressionGroup
from ...model.verdict import ChangeKind
from .. import schema
from ..engine import Store
from ..finding_records import BelowLimits, group_record, regression_records, select_findings
from ..mappers import commits_by_id, project_id, workloads
from ..statements import id_in
from .regressions import Watched, below_limits, watched_metrics
from .series_list import matching_ids

_TABLES = {
    ChangeKind.STEP: (schema.changepoint,),
    ChangeKind.NOT_SIGNIFICANT: (schema.changepoint,),
    ChangeKind.MACHINE_STATE: (schema.changepoint, schema.episode),
}


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
    tables = _TABLES.get(kind, (schema.episode,))
    with store.read() as connection:
        owner = project_id(connection, project)
        if owner is None:
            return GroupList(groups=(), total=0, any_at_all=False)
        known = workloads(connection, owner)
        below = below_limits(connection, owner, known) if kind is ChangeKind.STEP else frozenset()
        changes = _Changes(owner, kind, is_worse, below, watched_metrics(connection, owner))
        all_groups = {key for table in tables for key in changes.groups(connection, table, None)}
        groups = all_groups
        if named is not None:
            groups = {key for table in tables for key in changes.groups(connection, table, named)}
        commits = commits_by_id(connection, {commit for commit, _ in groups})
        of_project = select(schema.machine.c.id, schema.machine.c.name).where(schema.machine.c.project_id == owner)
        names = {row.id: row.name for row in connection.execute(of_project)}
        chosen = [
            (commit, machine_id)
            for commit, machine_id in groups
            if (machine is None or names[machine_id] == machine) and (since is None or commits[commit].date >= since)
        ]
        chosen.sort(key=lambda key: (-commits[key[0]].position, commits[key[0]].hash, names[key[1]]))
        by_group: dict[tuple[int, int], list[Regression]] = {key: [] for key in chosen[offset : offset + limit]}
        for table in tables:
            rows = changes.rows(connection, table, named, by_group)
            for row, one in zip(rows, regression_records(connection, table, rows, known), strict=True):
                by_group[row.commit_id, row.machine_id].append(one)
    return GroupList(
        groups=tuple(group_record(project, each) for each in by_group.values()),
        total=len(chosen),
        any_at_all=bool(all_groups),
    )


@dataclass(frozen=True, slots=True)
class _Changes:
    """The changes to list, of both tables of findings."""

    owner: int
    kind: ChangeKind
    is_worse: bool
    below: BelowLimits
    watched: Watched

    def groups(self, connection: Connection, table: Table, named: frozenset[int] | None) -> set[tuple[int, int]]:
        """Commit and machine of each group, by id."""
        series = schema.series
        columns = (series.c.benchmark_id, series.c.implementation, series.c.metric, series.c.unit)
        every: Select[Any] = select(series.c.id, *columns, table.c.commit_id, series.c.machine_id).distinct()
        query = self._chosen(every.join(series, series.c.id == table.c.series_id), table)
        if named is not None:
            query = query.where(id_in(connection, series.c.id, named))
        rows = connection.execute(query).all()
        return {(row.commit_id, row.machine_id) for row in rows if self._counts(row)}

    def rows(
        self, connection: Connection, table: Table, named: frozenset[int] | None, groups: Collection[tuple[int, int]]
    ) -> list[Row[Any]]:
        """The rows of `select_findings` of these groups."""
        at_commits = id_in(connection, table.c.commit_id, {commit for commit, _ in groups})
        rows = connection.execute(self._chosen(select_findings(table), table).where(at_commits)).all()
        return [
            row
            for row in rows
            if (row.commit_id, row.machine_id) in groups and (named is None or row.id in named) and self._counts(row)
        ]

    def _chosen(self, query: Select[Any], table: Table) -> Select[Any]:
        is_listed = (schema.series.c.project_id == self.owner) & schema.series.c.listed
        return query.where(is_listed, table.c.is_worse.is_(self.is_worse), table.c.kind == self.kind.value)

    def _counts(self, row: Row[Any]) -> bool:
        is_watched = self.watched(row.benchmark_id, row.implementation, row.metric, row.unit) is not None
        return is_watched and (row.id, row.commit_id) not in self.below

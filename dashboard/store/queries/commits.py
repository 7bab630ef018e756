"""Commits that have results, and everything recorded at one of them."""

import itertools
from statistics import median
from typing import Any

from sqlalchemy import Connection, Row, func, select

from warpwatch.dashboard.store import tables
from warpwatch.dashboard.store.queries.reading import (
    Workloads,
    change_record,
    commit_record,
    commits_by_id,
    project_id,
    select_series,
    series_record,
    workloads,
)
from warpwatch.dashboard.store.records import Commit, CommitPage, CommitPoint, CompiledCode, Regression
from warpwatch.dashboard.store.rows import STATUS_OF_CODE
from warpwatch.dashboard.store.store import Store


class AmbiguousCommitError(Exception):
    """A prefix that several commits share; the message names some of them."""


def commits(store: Store, project: str, *, limit: int = 100) -> tuple[Commit, ...]:
    """The project's commits that have results, newest first."""
    with store.read() as connection:
        owner = project_id(connection, project)
        rows = connection.execute(
            select(tables.commit)
            .where(tables.commit.c.project_id == owner)
            .order_by(tables.commit.c.position.desc())
            .limit(limit)
        )
        return tuple(commit_record(row) for row in rows)


def find_commit(store: Store, project: str, prefix: str) -> Commit | None:
    """The commit whose hash starts with `prefix`. Raises AmbiguousCommitError if several do."""
    with store.read() as connection:
        row = _find(connection, project, prefix)
        return commit_record(row) if row is not None else None


def commit_page(store: Store, project: str, prefix: str) -> CommitPage | None:
    """Everything recorded at the commit whose hash starts with `prefix`. Raises AmbiguousCommitError."""
    with store.read() as connection:
        row = _find(connection, project, prefix)
        if row is None:
            return None
        known = workloads(connection, row.project_id)
        return CommitPage(
            project=project,
            commit=commit_record(row),
            older=_neighbour(connection, row, -1),
            newer=_neighbour(connection, row, +1),
            points=_points(connection, row.id, known),
            changes=_changes(connection, row.id, known),
            compiled=_compiled(connection, row.id),
        )


def _find(connection: Connection, project: str, prefix: str) -> Row[Any] | None:
    table = tables.commit
    rows = connection.execute(
        select(table)
        .where(
            table.c.project_id == project_id(connection, project),
            table.c.hash.startswith(prefix.lower(), autoescape=True),
        )
        .limit(3)
    ).all()
    if not prefix or not rows:
        return None
    if len(rows) > 1:
        some = ", ".join(row.hash[: len(prefix) + 4] for row in rows)
        raise AmbiguousCommitError(f"several commits start with {prefix!r}: {some}; give more of the hash")
    return rows[0]


def _neighbour(connection: Connection, row: Row[Any], step: int) -> Commit | None:
    table = tables.commit
    if row.position is None:
        return None
    older = step < 0
    found = connection.execute(
        select(table)
        .where(table.c.project_id == row.project_id)
        .where(table.c.position < row.position if older else table.c.position > row.position)
        .order_by(table.c.position.desc() if older else table.c.position)
        .limit(1)
    ).one_or_none()
    return commit_record(found) if found is not None else None


def _points(connection: Connection, commit_id: int, known: Workloads) -> tuple[CommitPoint, ...]:
    table = tables.measurement
    rows = connection.execute(
        select_series(table.c.value, table.c.status, table.c.reason)
        .join(table, table.c.series_id == tables.series.c.id)
        .where(table.c.commit_id == commit_id)
        .order_by(tables.machine.c.name, tables.benchmark.c.name, tables.series.c.id)
    ).all()
    before = _before(connection, commit_id)
    its_commits = commits_by_id(connection, {commit for commit, _ in before.values()})
    points = []
    for series_id, group in itertools.groupby(rows, key=lambda row: row.id):
        runs = list(group)
        values = [row.value for row in runs if row.value is not None]
        row = next((row for row in reversed(runs) if row.value is not None), runs[-1])
        commit, previous = before.get(series_id, (None, None))
        points.append(
            CommitPoint(
                series=series_record(row, known),
                value=median(values) if values else None,
                status=STATUS_OF_CODE[row.status],
                reason=row.reason,
                previous=previous,
                previous_commit=its_commits[commit] if commit is not None else None,
                runs=len(runs),
            )
        )
    return tuple(points)


def _before(connection: Connection, commit_id: int) -> dict[int, tuple[int, float]]:
    """For each series of the commit, the newest earlier commit with a number and the median there."""
    table, commit = tables.measurement, tables.commit
    here = table.alias("here")
    position = select(commit.c.position).where(commit.c.id == commit_id).scalar_subquery()
    newest = (
        select(table.c.series_id, func.max(commit.c.position).label("position"))
        .join(commit, commit.c.id == table.c.commit_id)
        .where(
            table.c.series_id.in_(select(here.c.series_id).where(here.c.commit_id == commit_id)),
            table.c.value.is_not(None),
            commit.c.position < position,
        )
        .group_by(table.c.series_id)
        .subquery()
    )
    rows = connection.execute(
        select(table.c.series_id, table.c.commit_id, table.c.value)
        .join(commit, commit.c.id == table.c.commit_id)
        .join(newest, (newest.c.series_id == table.c.series_id) & (newest.c.position == commit.c.position))
        .where(table.c.value.is_not(None))
    )
    values: dict[int, list[tuple[int, float]]] = {}
    for row in rows:
        values.setdefault(row.series_id, []).append((row.commit_id, row.value))
    return {series: (pairs[0][0], median(value for _, value in pairs)) for series, pairs in values.items()}


def _changes(connection: Connection, commit_id: int, known: Workloads) -> tuple[Regression, ...]:
    table = tables.changepoint
    columns = [column for column in table.c if column.name != "series_id"]
    rows = connection.execute(
        select_series(*columns)
        .join(table, table.c.series_id == tables.series.c.id)
        .where(table.c.commit_id == commit_id)
    ).all()
    found = commits_by_id(connection, (i for row in rows for i in (row.commit_id, row.previous_commit_id)))
    changes = [Regression(series=series_record(row, known), change=change_record(row, found)) for row in rows]
    changes.sort(
        key=lambda one: (
            not one.series.is_watched, not one.series.metric.is_judged, not one.change.is_worse,
            -abs(one.change.magnitude),
        )
    )  # fmt: skip
    return tuple(changes)


def _compiled(connection: Connection, commit_id: int) -> tuple[CompiledCode, ...]:
    """Each kernel and architecture of the commit, from the newest run that compiled it."""
    table, run = tables.compiled_code, tables.run
    rows = connection.execute(
        select(table).join(run, run.c.id == table.c.run_id).where(table.c.commit_id == commit_id)
        .order_by(run.c.started_ms)
    )  # fmt: skip
    newest = {(row.operator, row.kernel, row.architecture): row for row in rows}
    return tuple(
        CompiledCode(
            operator=row.operator, kernel=row.kernel, architecture=row.architecture, registers=row.registers,
            stack_bytes=row.stack_bytes, shared_bytes=row.shared_bytes,
            local_memory_instructions=row.local_memory_instructions, code_bytes=row.code_bytes,
            instructions=row.instructions, sha256=row.sha256,
            **{name: (row.more or {}).get(name) for name in tables.MORE_OF_CODE},
        )
        for _, row in sorted(newest.items())
    )  # fmt: skip

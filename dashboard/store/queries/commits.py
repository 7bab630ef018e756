"""Commits that have results, and everything recorded at one of them."""

from typing import Any, NamedTuple

import numpy as np
from sqlalchemy import Connection, Row, select

from warpwatch.dashboard.store import tables
from warpwatch.dashboard.store.calendar import NOT_PLACED, Calendar, calendar
from warpwatch.dashboard.store.columns import Columns
from warpwatch.dashboard.store.points import batches, recorded_at, with_points
from warpwatch.dashboard.store.reading import (
    Workloads,
    change_record,
    commit_record,
    commits_by_id,
    commits_of_changes,
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
        row = find_row(connection, project, prefix)
        return commit_record(row) if row is not None else None


def commit_page(store: Store, project: str, prefix: str) -> CommitPage | None:
    """Everything recorded at the commit whose hash starts with `prefix`. Raises AmbiguousCommitError."""
    with store.read() as connection:
        row = find_row(connection, project, prefix)
        if row is None:
            return None
        known = workloads(connection, row.project_id)
        return CommitPage(
            project=project,
            commit=commit_record(row),
            older=neighbour(connection, row, -1),
            newer=neighbour(connection, row, +1),
            points=_points(connection, row, known),
            changes=_changes(connection, row.id, known),
            compiled=compiled_of(connection, row.id),
        )


def find_row(connection: Connection, project: str, prefix: str) -> Row[Any] | None:
    """The row of the commit whose hash starts with `prefix`. Raises AmbiguousCommitError if several do."""
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


def commit_row(connection: Connection, project: int | None, commit: str) -> Row[Any] | None:
    """The row of a full hash."""
    table = tables.commit
    wanted = select(table).where(table.c.project_id == project, table.c.hash == commit)
    return connection.execute(wanted).one_or_none()


def neighbour(connection: Connection, row: Row[Any] | None, step: int) -> Commit | None:
    """The commit before (-1) or after (+1) the row's in the project's order."""
    table = tables.commit
    if row is None or row.position is None:
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


def _points(connection: Connection, commit: Row[Any], known: Workloads) -> tuple[CommitPoint, ...]:
    here = recorded_at(connection, commit.project_id, [commit.id])
    rows = [
        row
        for some in batches(here, 1000)
        for row in connection.execute(select_series().where(tables.series.c.id.in_(some)))
    ]
    rows.sort(key=lambda row: (row.machine_name, row.benchmark_name, row.id))
    whole = calendar(connection, commit.project_id)
    its_position = commit.position if commit.position is not None else NOT_PLACED
    found = [
        (row, *_at_and_before(points, whole, commit.id, its_position))
        for some in batches(rows, 500)
        for row, points in with_points(connection, some)
    ]
    its_commits = commits_by_id(connection, {before.commit for *_, before in found if before is not None})
    return tuple(
        CommitPoint(
            series=series_record(row, known),
            value=now.value,
            status=STATUS_OF_CODE[now.status],
            reason=now.reason,
            previous=before.value if before is not None else None,
            previous_commit=its_commits[before.commit] if before is not None else None,
            runs=now.runs,
        )
        for row, now, before in found
    )


class _Now(NamedTuple):
    """A series at the commit: the median over its runs, and what the last one says that has a number."""

    value: float | None
    status: int
    reason: str | None
    runs: int


class _Before(NamedTuple):
    """The newest earlier commit with a number, and the median there."""

    commit: int
    value: float


def _at_and_before(points: Columns, whole: Calendar, commit: int, position: int) -> tuple[_Now, _Before | None]:
    at = np.flatnonzero(points.commit == commit)
    has_number = ~np.isnan(points.value)
    numbers = at[has_number[at]]
    shown = numbers[-1] if len(numbers) else at[-1]
    reason = int(points.reason[shown])
    now = _Now(
        float(np.median(points.value[numbers])) if len(numbers) else None,
        int(points.status[shown]),
        points.reasons[reason - 1] if reason else None,
        len(at),
    )
    place = whole.position[np.searchsorted(whole.commits, points.commit)]
    earlier = np.flatnonzero(has_number & (place < position))
    if not len(earlier):
        return now, None
    newest = earlier[place[earlier] == place[earlier].max()]
    return now, _Before(int(points.commit[newest[0]]), float(np.median(points.value[newest])))


def _changes(connection: Connection, commit_id: int, known: Workloads) -> tuple[Regression, ...]:
    table = tables.changepoint
    columns = [column for column in table.c if column.name != "series_id"]
    rows = connection.execute(
        select_series(*columns)
        .join(table, table.c.series_id == tables.series.c.id)
        .where(table.c.commit_id == commit_id)
    ).all()
    found = commits_by_id(connection, commits_of_changes(rows))
    changes = [Regression(series=series_record(row, known), change=change_record(row, found)) for row in rows]
    changes.sort(
        key=lambda one: (
            not one.series.is_watched, not one.series.metric.is_judged, not one.change.is_worse,
            -abs(one.change.magnitude),
        )
    )  # fmt: skip
    return tuple(changes)


def compiled_of(connection: Connection, commit_id: int, operator: str | None = None) -> tuple[CompiledCode, ...]:
    """Each kernel and architecture of the commit, or of one operator at it, from the newest run that compiled it."""
    table, run = tables.compiled_code, tables.run
    where = [table.c.commit_id == commit_id, *([table.c.operator == operator] if operator is not None else [])]
    rows = connection.execute(
        select(table).join(run, run.c.id == table.c.run_id).where(*where).order_by(run.c.started_ms)
    )
    newest = {(row.operator, row.kernel, row.architecture): row for row in rows}
    return tuple(compiled_record(row) for _, row in sorted(newest.items()))


def compiled_record(row: Row[Any]) -> CompiledCode:
    """A row of the table of compiled code."""
    return CompiledCode(
        operator=row.operator, kernel=row.kernel, architecture=row.architecture, registers=row.registers,
        stack_bytes=row.stack_bytes, shared_bytes=row.shared_bytes,
        local_memory_instructions=row.local_memory_instructions, code_bytes=row.code_bytes,
        instructions=row.instructions, sha256=row.sha256,
        **{name: (row.more or {}).get(name) for name in tables.MORE_OF_CODE},
    )  # fmt: skip

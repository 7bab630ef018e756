"""Commits that have results, what one of them changed, and everything recorded at it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sqlalchemy import Connection, Row, func, select

from ...model.changepoint import Regression
from ...model.compiled_code import CompiledCode
from ...model.history import CommitPage, CommitPoint
from ...model.series import UNORDERED_POSITION, Commit
from ...model.verdict import ChangeKind
from ...statistics.noise import median
from .. import schema
from ..chunks import Ints, optional
from ..commit_index import calendar
from ..engine import Store
from ..mappers import (
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
from ..points import recorded_at
from ..project_points import ProjectPoints, points_of_series, project_points
from ..statements import STATUS_OF_CODE
from .regressions import below_limits, watched_metrics
from .series_list import SeriesPlace, series_places


class AmbiguousCommitError(Exception):
    """A prefix that several commits share; the message names some of them."""


def commits(store: Store, project: str, *, limit: int = 100) -> tuple[Commit, ...]:
    """The project's commits that have results, newest first."""
    with store.read() as connection:
        owner = project_id(connection, project)
        rows = connection.execute(
            select(schema.commit)
            .where(schema.commit.c.project_id == owner)
            .order_by(schema.commit.c.position.desc())
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
    held, places = project_points(store, project), series_places(store, project)
    with store.read() as connection:
        row = find_row(connection, project, prefix)
        if row is None:
            return None
        known = workloads(connection, row.project_id)
        points = held if held is not None else _read_points(connection, row)
        return CommitPage(
            project=project,
            commit=commit_record(row),
            older=neighbour(connection, row, -1),
            newer=neighbour(connection, row, +1),
            points=_points(connection, row, points, places),
            changes=_changes(connection, row.id, known),
            compiled=compiled_of(connection, row.id),
        )


def find_row(connection: Connection, project: str, prefix: str) -> Row[Any] | None:
    """The row of the commit whose hash starts with `prefix`. Raises AmbiguousCommitError if several do."""
    table = schema.commit
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
    table = schema.commit
    wanted = select(table).where(table.c.project_id == project, table.c.hash == commit)
    return connection.execute(wanted).one_or_none()


def neighbour(connection: Connection, row: Row[Any] | None, step: int) -> Commit | None:
    """The commit before (-1) or after (+1) the row's in the project's order."""
    table = schema.commit
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


def _read_points(connection: Connection, commit: Row[Any]) -> ProjectPoints:
    """Of the series with a point at the commit, all points."""
    here = recorded_at(connection, commit.project_id, [commit.id])
    return points_of_series(connection, calendar(connection, commit.project_id), here)


def _points(
    connection: Connection, commit: Row[Any], every: ProjectPoints, places: Mapping[int, SeriesPlace]
) -> tuple[CommitPoint, ...]:
    at = np.flatnonzero(every.at([commit.id]))
    which, firsts, counts = np.unique(
        np.searchsorted(every.starts, at, side="right") - 1, return_index=True, return_counts=True
    )
    ids, firsts = every.series[which].tolist(), at[firsts]
    nows = dict(zip(ids, _nows(every, firsts, counts), strict=True))
    position = commit.position if commit.position is not None else UNORDERED_POSITION
    befores = dict(zip(ids, _befores(every, every.starts[which], firsts, position), strict=True))
    its_commits = commits_by_id(connection, {before.commit for before in befores.values() if before is not None})
    return tuple(
        CommitPoint(
            series=place.series,
            value=now.value,
            status=STATUS_OF_CODE[now.status],
            reason=now.reason,
            previous=before.value if (before := befores[number]) is not None else None,
            previous_commit=its_commits[before.commit] if before is not None else None,
            runs=now.runs,
        )
        for number, place in places.items()
        if (now := nows.get(number)) is not None
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


def _nows(every: ProjectPoints, firsts: Ints, counts: Ints) -> list[_Now]:
    """Of each series, whose points at the commit are so many from the first on."""
    points, last = every.points, firsts + counts - 1
    reasons = (None, *points.reasons)
    alone = zip(
        optional(points.value[last], ~every.has_number[last]),
        points.status[last].tolist(),
        [reasons[n] for n in points.reason[last].tolist()],
        counts.tolist(),
        strict=True,
    )
    found = [_Now(*each) for each in alone]
    for n in np.flatnonzero(counts > 1).tolist():
        numbers = firsts[n] + np.flatnonzero(every.has_number[firsts[n] : last[n] + 1])
        if len(numbers):
            shown = int(numbers[-1])
            found[n] = _Now(
                median(points.value[numbers]), int(points.status[shown]), reasons[points.reason[shown]], int(counts[n])
            )
    return found


def _befores(every: ProjectPoints, starts: Ints, firsts: Ints, position: int) -> list[_Before | None]:
    """Of each series, by where its points start and the first of those at the commit, which stands at `position`.

    The point before that mostly tells; where it is one of several runs, has no number or is no earlier commit's, the
    rest of the history is looked at.
    """
    points, whole = every.points, every.calendar
    last = np.maximum(firsts - 1, starts)
    place = whole.position[np.searchsorted(whole.commits, points.commit[last])]
    is_alone = (last == starts) | (points.commit[last - 1] != points.commit[last])
    tells = (firsts > starts) & every.has_number[last] & (place < position) & is_alone
    found: list[_Before | None] = [
        _Before(*each) for each in zip(points.commit[last].tolist(), points.value[last].tolist(), strict=True)
    ]
    for n in np.flatnonzero(~tells).tolist():
        found[n] = _before(every, slice(int(starts[n]), int(firsts[n])), position)
    return found


def _before(every: ProjectPoints, its: slice, position: int) -> _Before | None:
    """Among the points of one series before the commit."""
    whole, commit = every.calendar, every.points.commit[its]
    numbers = np.flatnonzero(
        every.has_number[its] & (whole.position[np.searchsorted(whole.commits, commit)] < position)
    )
    if not len(numbers):
        return None
    newest = numbers[commit[numbers] == commit[numbers[-1]]]
    return _Before(int(commit[newest[0]]), median(every.points.value[its][newest]))


def _changes(connection: Connection, commit_id: int, known: Workloads) -> tuple[Regression, ...]:
    table = schema.changepoint
    columns = [column for column in table.c if column.name != "series_id"]
    rows = connection.execute(
        select_series(*columns)
        .join(table, table.c.series_id == schema.series.c.id)
        .where(table.c.commit_id == commit_id)
    ).all()
    found = commits_by_id(connection, commits_of_changes(rows))
    changes = [Regression(series=series_record(row, known), change=change_record(row, found)) for row in rows]
    changes.sort(
        key=lambda one: (
            not one.series.is_ours,
            not one.series.metric.is_judged,
            not one.change.is_worse,
            -abs(one.change.magnitude),
        )
    )
    return tuple(changes)


def compiled_of(connection: Connection, commit_id: int, operator: str | None = None) -> tuple[CompiledCode, ...]:
    """Each kernel and architecture of the commit, or of one operator at it, from the newest run that compiled it."""
    table, run = schema.compiled_code, schema.run
    where = [table.c.commit_id == commit_id, *([table.c.operator == operator] if operator is not None else [])]
    rows = connection.execute(
        select(table).join(run, run.c.id == table.c.run_id).where(*where).order_by(run.c.started_ms)
    )
    newest = {(row.operator, row.kernel, row.architecture): row for row in rows}
    return tuple(compiled_record(row) for _, row in sorted(newest.items()))


def compiled_record(row: Row[Any]) -> CompiledCode:
    """A row of the table of compiled code."""
    return CompiledCode(
        operator=row.operator,
        kernel=row.kernel,
        architecture=row.architecture,
        registers=row.registers,
        stack_bytes=row.stack_bytes,
        shared_bytes=row.shared_bytes,
        local_memory_instructions=row.local_memory_instructions,
        code_bytes=row.code_bytes,
        instructions=row.instructions,
        sha256=row.sha256,
        **{name: (row.more or {}).get(name) for name in schema.MORE_OF_CODE},
    )


# The commits of a project that have results, a part at a time.


def commit_list(store: Store, project: str, *, limit: int, offset: int = 0) -> tuple[int, tuple[Commit, ...]]:
    """How many there are, and those of this part, newest first."""
    table = schema.commit
    with store.read() as connection:
        own = table.c.project_id == project_id(connection, project)
        total = connection.execute(select(func.count()).select_from(table).where(own)).scalar_one()
        rows = connection.execute(
            select(table).where(own).order_by(table.c.position.desc(), table.c.id.desc()).limit(limit).offset(offset)
        )
        return total, tuple(commit_record(row) for row in rows)


# How many series each of some commits made worse and better: what a list of commits tells beside their names.


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """Series of ours whose level a commit moved, on whichever machine."""

    worse: int = 0
    better: int = 0


def steps_of_commits(store: Store, project: str) -> Mapping[str, Steps]:
    """By hash, of all commits that began a step of a listed series of a judged metric, one that counts by the limits
    that the project states."""
    return store.cached(project, "steps of commits", lambda: _counted(store, project))


def _counted(store: Store, project: str) -> Mapping[str, Steps]:
    series, change, commit = schema.series, schema.changepoint, schema.commit
    with store.read() as connection:
        owner = project_id(connection, project)
        if owner is None:
            return {}
        watched = watched_metrics(connection, owner)
        below = below_limits(connection, owner, workloads(connection, owner))
        rows = connection.execute(
            select(
                commit.c.hash,
                commit.c.id.label("commit_id"),
                series.c.id,
                series.c.benchmark_id,
                series.c.implementation,
                series.c.metric,
                series.c.unit,
                change.c.is_worse,
            )
            .join_from(change, series, series.c.id == change.c.series_id)
            .join(commit, commit.c.id == change.c.commit_id)
            .where(series.c.project_id == owner, series.c.listed, change.c.kind == ChangeKind.STEP.value)
        ).all()
    counted: dict[str, list[int]] = {}
    for row in rows:
        if (row.id, row.commit_id) in below:
            continue
        if watched(row.benchmark_id, row.implementation, row.metric, row.unit) is not None:
            counted.setdefault(row.hash, [0, 0])[0 if row.is_worse else 1] += 1
    return {name: Steps(worse=worse, better=better) for name, (worse, better) in counted.items()}

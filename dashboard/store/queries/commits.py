"""Commits with results: lists, and everything recorded at one of them."""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
from sqlalchemy import Connection, Row, func, select, true

from ...model.changepoint import Regression
from ...model.compiled_code import CompiledCode
from ...model.history import CommitPage, CommitPoint
from ...model.series import UNORDERED_POSITION, Commit
from ...model.verdict import ChangeKind
from ...statistics.noise import median
from .. import schema
from ..chunks import Ints, optional
from ..commit_index import read_commit_index
from ..engine import Store, cached
from ..finding_records import regression_records, select_findings
from ..mappers import Workloads, commit_record, commits_by_id, project_id, workloads
from ..points import recorded_at
from ..project_points import ProjectPoints, points_of_series, project_points
from ..statements import STATUS_OF_CODE, id_in
from .regressions import below_limits, watched_metrics
from .series_list import IndexedSeries, series_index

_COLUMNS_OF_CODE = tuple(field.name for field in fields(CompiledCode) if field.name not in schema.MORE_OF_CODE)


class AmbiguousCommitError(Exception):
    """A prefix of several commits; the message names some."""


def commits(store: Store, project: str, *, limit: int = 100) -> tuple[Commit, ...]:
    """The project's commits with results, newest first."""
    return commit_list(store, project, limit=limit)[1]


def find_commit(store: Store, project: str, prefix: str) -> Commit | None:
    """The commit whose hash starts with `prefix`. Raises AmbiguousCommitError if several do."""
    with store.read() as connection:
        row = find_row(connection, project, prefix)
        return commit_record(row) if row is not None else None


def commit_page(store: Store, project: str, prefix: str) -> CommitPage | None:
    """Everything recorded at the commit whose hash starts with `prefix`. Raises AmbiguousCommitError."""
    cached, indexed = project_points(store, project), series_index(store, project)
    with store.read() as connection:
        row = find_row(connection, project, prefix)
        if row is None:
            return None
        known = workloads(connection, row.project_id)
        points = cached if cached is not None else _read_points(connection, row)
        return CommitPage(
            project=project,
            commit=commit_record(row),
            older=neighbour(connection, row, -1),
            newer=neighbour(connection, row, +1),
            points=_points(connection, row, points, indexed),
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
        examples = ", ".join(row.hash[: len(prefix) + 4] for row in rows)
        raise AmbiguousCommitError(f"several commits start with {prefix!r}: {examples}; give more of the hash")
    return rows[0]


def commit_row(connection: Connection, project: int | None, commit: str) -> Row[Any] | None:
    """The row of a commit by full hash."""
    table = schema.commit
    query = select(table).where(table.c.project_id == project, table.c.hash == commit)
    return connection.execute(query).one_or_none()


def neighbour(connection: Connection, row: Row[Any] | None, step: int) -> Commit | None:
    """The commit before (-1) or after (+1) the row's in the project's order."""
    table = schema.commit
    if row is None or row.position is None:
        return None
    older = step < 0
    adjacent = connection.execute(
        select(table)
        .where(table.c.project_id == row.project_id)
        .where(table.c.position < row.position if older else table.c.position > row.position)
        .order_by(table.c.position.desc() if older else table.c.position)
        .limit(1)
    ).one_or_none()
    return commit_record(adjacent) if adjacent is not None else None


def _read_points(connection: Connection, commit: Row[Any]) -> ProjectPoints:
    ids = recorded_at(connection, commit.project_id, [commit.id])
    return points_of_series(connection, read_commit_index(connection, commit.project_id), ids)


def _points(
    connection: Connection, commit: Row[Any], every: ProjectPoints, indexed: Mapping[int, IndexedSeries]
) -> tuple[CommitPoint, ...]:
    at = np.flatnonzero(every.at([commit.id]))
    rows, firsts, counts = np.unique(
        np.searchsorted(every.starts, at, side="right") - 1, return_index=True, return_counts=True
    )
    ids, firsts = every.series[rows].tolist(), at[firsts]
    at_commit = dict(zip(ids, _values_at(every, firsts, counts), strict=True))
    position = commit.position if commit.position is not None else UNORDERED_POSITION
    earlier = dict(zip(ids, _earlier_values(every, every.starts[rows], firsts, position), strict=True))
    previous_commits = commits_by_id(connection, {each.commit for each in earlier.values() if each is not None})
    return tuple(
        CommitPoint(
            series=entry.series,
            value=now.value,
            status=STATUS_OF_CODE[now.status],
            reason=now.reason,
            previous=before.value if (before := earlier[number]) is not None else None,
            previous_commit=previous_commits[before.commit] if before is not None else None,
            runs=now.runs,
        )
        for number, entry in indexed.items()
        if (now := at_commit.get(number)) is not None
    )


class _ValueAt(NamedTuple):
    """A series at the commit: median over the runs, status and reason of the last run, with a number if any has one."""

    value: float | None
    status: int
    reason: str | None
    runs: int


class _EarlierValue(NamedTuple):
    """The newest earlier commit with a number, and the median there."""

    commit: int
    value: float


def _values_at(every: ProjectPoints, firsts: Ints, counts: Ints) -> list[_ValueAt]:
    """The value of each series, whose points at the commit are `counts` from `firsts` on."""
    points, last = every.points, firsts + counts - 1
    reasons = (None, *points.reasons)
    single = zip(
        optional(points.value[last], ~every.has_number[last]),
        points.status[last].tolist(),
        [reasons[n] for n in points.reason[last].tolist()],
        counts.tolist(),
        strict=True,
    )
    values = [_ValueAt(*each) for each in single]
    for n in np.flatnonzero(counts > 1).tolist():
        numbers = firsts[n] + np.flatnonzero(every.has_number[firsts[n] : last[n] + 1])
        if len(numbers):
            last_number = int(numbers[-1])
            values[n] = _ValueAt(
                median(points.value[numbers]),
                int(points.status[last_number]),
                reasons[points.reason[last_number]],
                int(counts[n]),
            )
    return values


def _earlier_values(every: ProjectPoints, starts: Ints, firsts: Ints, position: int) -> list[_EarlierValue | None]:
    """The newest earlier value of each series, whose points start at `starts`, those at the commit at `firsts`.

    Usually the point before `firsts`; if that is one of several runs, has no number or is of no earlier commit, the
    rest of the history is searched.
    """
    points, index = every.points, every.commit_index
    last = np.maximum(firsts - 1, starts)
    previous_position = index.position[np.searchsorted(index.commits, points.commit[last])]
    is_alone = (last == starts) | (points.commit[last - 1] != points.commit[last])
    is_found = (firsts > starts) & every.has_number[last] & (previous_position < position) & is_alone
    values: list[_EarlierValue | None] = [
        _EarlierValue(*each) for each in zip(points.commit[last].tolist(), points.value[last].tolist(), strict=True)
    ]
    for n in np.flatnonzero(~is_found).tolist():
        values[n] = _earlier_value(every, slice(int(starts[n]), int(firsts[n])), position)
    return values


def _earlier_value(every: ProjectPoints, own: slice, position: int) -> _EarlierValue | None:
    """The newest value among the points `own` of one series before a position."""
    index, commit = every.commit_index, every.points.commit[own]
    numbers = np.flatnonzero(
        every.has_number[own] & (index.position[np.searchsorted(index.commits, commit)] < position)
    )
    if not len(numbers):
        return None
    newest = numbers[commit[numbers] == commit[numbers[-1]]]
    return _EarlierValue(int(commit[newest[0]]), median(every.points.value[own][newest]))


def _changes(connection: Connection, commit_id: int, known: Workloads) -> tuple[Regression, ...]:
    table = schema.changepoint
    rows = connection.execute(select_findings(table).where(table.c.commit_id == commit_id)).all()
    changes = regression_records(connection, table, rows, known)
    changes.sort(
        key=lambda one: (
            not one.series.is_ours,
            not one.series.metric.is_judged,
            one.change.kind is not ChangeKind.STEP,
            -abs(math.log1p(one.change.magnitude)) if one.change.magnitude > -1 else -math.inf,
        )
    )
    return tuple(changes)


def compiled_of(connection: Connection, commit_id: int, operator: str | None = None) -> tuple[CompiledCode, ...]:
    """Compiled code of the commit, or of one operator, from the newest run of each kernel and architecture."""
    compiled = compiled_by_commit(connection, [commit_id]).get(commit_id, ())
    return tuple(code for code in compiled if operator in {None, code.operator})


def compiled_by_commit(
    connection: Connection, commits: Collection[int], operators: Collection[str] | None = None
) -> dict[int, list[CompiledCode]]:
    """Compiled code by commit id, from the newest run of each kernel and architecture, by operator and kernel.

    `operators`: only of these; None: of all.
    """
    table, run = schema.compiled_code, schema.run
    rows = connection.execute(
        select(table)
        .join(run, run.c.id == table.c.run_id)
        .where(
            id_in(connection, table.c.commit_id, commits),
            table.c.operator.in_(operators) if operators is not None else true(),
        )
        .order_by(run.c.started_ms)
    )
    newest = {(row.commit_id, row.operator, row.kernel, row.architecture): row for row in rows}
    compiled: dict[int, list[CompiledCode]] = {}
    for (commit, *_), row in sorted(newest.items()):
        facts: dict[str, Any] = {name: getattr(row, name) for name in _COLUMNS_OF_CODE}
        facts |= {name: (row.more or {}).get(name) for name in schema.MORE_OF_CODE}
        compiled.setdefault(commit, []).append(CompiledCode(**facts))
    return compiled


def commit_list(store: Store, project: str, *, limit: int, offset: int = 0) -> tuple[int, tuple[Commit, ...]]:
    """The number of commits with results, and a page of them, newest first."""
    table = schema.commit
    with store.read() as connection:
        own = table.c.project_id == project_id(connection, project)
        total = connection.execute(select(func.count()).select_from(table).where(own)).scalar_one()
        rows = connection.execute(
            select(table).where(own).order_by(table.c.position.desc(), table.c.id.desc()).limit(limit).offset(offset)
        )
        return total, tuple(commit_record(row) for row in rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """Number of our series with a step at a commit, on all machines."""

    worse: int = 0
    better: int = 0


@cached()
def steps_of_commits(store: Store, project: str) -> Mapping[str, Steps]:
    """Steps by commit hash: of listed series of judged metrics, at or above the project's thresholds."""
    series, change, commit = schema.series, schema.changepoint, schema.commit
    with store.read() as connection:
        owner = project_id(connection, project)
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

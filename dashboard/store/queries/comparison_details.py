"""Details of a comparison: commits around and between, runs, samples and compiled code."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
from sqlalchemy import Connection, func, select

from ...model.compiled_code import CompiledCode
from ...model.series import Commit, Point
from .. import schema
from ..cache import ROW_BYTES
from ..engine import Store, cached
from ..mappers import commits_by_id, moment, project_id, series_row
from ..points import read_samples
from ..project_points import project_points
from .commits import commit_row, compiled_of, neighbour
from .series_lines import points_of
from .series_list import series_index

_NEWEST_COMMITS = 10  # that show how many values a complete commit has; older ones may be of a smaller suite


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitsBetween:
    """The commits around and between two, in the project's order."""

    base_older: Commit | None
    base_newer: Commit | None
    head_older: Commit | None
    head_newer: Commit | None
    measured: int  # number of commits with results between the two
    unmeasured: int | None  # number of others; None without a repository


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineRuns:
    machine: str
    environment: str
    runs: int
    newest_run: datetime | None
    gpus: tuple[str, ...]
    driver: str | None
    before: Commit | None  # the newest earlier complete commit on this machine, else the newest with results


def implementations(store: Store, project: str) -> frozenset[str]:
    """Names of all implementations, baselines included."""
    name = schema.series.c.implementation
    with store.read() as connection:
        owner = project_id(connection, project)
        return frozenset(
            connection.execute(
                select(name).where(schema.series.c.project_id == owner, name.is_not(None)).distinct()
            ).scalars()
        )


@cached()
def between(store: Store, project: str, base: Commit, head: Commit) -> CommitsBetween:
    """The neighbours of both, and the number of commits between them."""
    table = schema.commit
    first, last = sorted((base.position, head.position))
    with store.read() as connection:
        owner = project_id(connection, project)
        unmeasured = select(func.sum(table.c.unmeasured_before)).where(
            table.c.project_id == owner, table.c.position > first, table.c.position <= last
        )
        rows = [commit_row(connection, owner, each.hash) for each in (base, head)]
        around = [neighbour(connection, row, step) for row in rows for step in (-1, 1)]
        return CommitsBetween(
            base_older=around[0],
            base_newer=around[1],
            head_older=around[2],
            head_newer=around[3],
            measured=max(last - first - 1, 0),
            unmeasured=connection.execute(unmeasured).scalar(),
        )


@cached()
def measured_on(store: Store, project: str, commit: str) -> tuple[MachineRuns, ...]:
    """Runs of a commit (full hash) by machine and environment."""
    run, table = schema.run, schema.commit
    with store.read() as connection:
        owner = project_id(connection, project)
        rows = connection.execute(
            select(
                run,
                table.c.position,
                schema.machine.c.name.label("machine"),
                schema.environment.c.name.label("environment"),
            )
            .join(table, table.c.id == run.c.commit_id)
            .join(schema.machine, schema.machine.c.id == run.c.machine_id)
            .join(schema.environment, schema.environment.c.id == run.c.environment_id)
            .where(run.c.project_id == owner, table.c.hash == commit)
            .order_by(schema.machine.c.name, schema.environment.c.name, run.c.started_ms, run.c.id)
        ).all()
    groups: dict[tuple[str, str], list[Any]] = {}
    for row in rows:
        groups.setdefault((row.machine, row.environment), []).append(row)
    complete = {machine: _complete_commits(store, project, machine) for machine, _ in groups}
    with store.read() as connection:
        return tuple(_measured_on(connection, *key, runs, complete[key[0]]) for key, runs in groups.items())


def newest_measured(store: Store, project: str, machines: Collection[str]) -> Commit | None:
    """The newest commit with results on all of these machines; on any if none is given.

    One that is not complete on each (`_complete_commits`) is the newest only where there is no other.
    """
    first, *others = [_complete_commits(store, project, name) for name in machines or (None,)]
    complete = (commit for number, commit in first.items() if all(number in other for other in others))
    return next(complete, None) or _newest_with_results(store, project, machines)


@cached(size=lambda commits: ROW_BYTES * len(commits))
def _complete_commits(store: Store, project: str, machine: str | None) -> Mapping[int, Commit]:
    """Commits, by id and newest first, with at least half as many values as the median of the newest commits.

    Counted on one machine, or on all. The other commits measured some benchmarks only, or an earlier, smaller suite.
    Empty where the project has more points than are cached.
    """
    points = project_points(store, project)
    if points is None:
        return {}
    index = series_index(store, project)
    is_own = [machine in {None, index[number].series.machine} for number in points.series.tolist()]
    counts = np.bincount(points.points.commit[np.repeat(is_own, np.diff(points.starts)) & points.has_number])
    with store.read() as connection:
        commits = commits_by_id(connection, np.flatnonzero(counts).tolist())
    newest = sorted(commits, key=lambda number: (commits[number].position, commits[number].date), reverse=True)
    median = np.median(counts[newest[:_NEWEST_COMMITS]]) if newest else 0
    return {number: commits[number] for number in newest if 2 * counts[number] >= median}


def _newest_with_results(store: Store, project: str, machines: Collection[str]) -> Commit | None:
    run, table = schema.run, schema.commit
    with store.read() as connection:
        query = select(table.c.id).where(table.c.project_id == project_id(connection, project))
        for name in machines:
            on_machine = select(run.c.commit_id).join(schema.machine, schema.machine.c.id == run.c.machine_id)
            query = query.where(table.c.id.in_(on_machine.where(schema.machine.c.name == name)))
        number = connection.execute(query.order_by(table.c.position.desc()).limit(1)).scalar()
        return commits_by_id(connection, [number])[number] if number is not None else None


def newest_of_machines(store: Store, project: str, base: str, head: str) -> tuple[Commit, Commit] | None:
    """The newest commit with results on both machines, else the newest of each; None if one has no results."""
    both = newest_measured(store, project, (base, head))
    own = (both, both) if both else tuple(newest_measured(store, project, (name,)) for name in (base, head))
    return (own[0], own[1]) if own[0] and own[1] else None


def series_points(store: Store, key: str) -> tuple[Point, ...]:
    """A series' points, by commit, then run."""
    with store.read() as connection:
        row = series_row(connection, key)
        return points_of(store, connection, row.project_name, [row.id]).get(row.id, ()) if row is not None else ()


def samples_at(store: Store, key: str, commit: str) -> tuple[tuple[float, ...], ...]:
    """The stored samples of a series at a commit (full hash), of each run, in the order of measurement."""
    series, table = schema.series, schema.commit
    with store.read() as connection:
        row = connection.execute(
            select(series.c.id, table.c.id.label("commit_id"))
            .join(table, table.c.project_id == series.c.project_id)
            .where(series.c.key == key, table.c.hash == commit)
        ).one_or_none()
        columns = read_samples(connection, [row.id]).get(row.id) if row is not None else None
    if row is None or columns is None:
        return ()
    ends = np.cumsum(columns.count)
    indices = np.flatnonzero(columns.commit == row.commit_id).tolist()
    return tuple(tuple(columns.samples[ends[n] - columns.count[n] : ends[n]].tolist()) for n in indices)


def compiled_at(store: Store, project: str, commit: str, *, operator: str | None = None) -> tuple[CompiledCode, ...]:
    """Compiled code at a commit (full hash), of one operator or all."""
    with store.read() as connection:
        row = commit_row(connection, project_id(connection, project), commit)
        return compiled_of(connection, row.id, operator) if row is not None else ()


def _measured_on(
    connection: Connection, machine: str, environment: str, rows: list[Any], complete: Collection[int]
) -> MachineRuns:
    run, table = schema.run, schema.commit
    newest = rows[-1]
    earlier = (
        select(run.c.commit_id)
        .join(table, table.c.id == run.c.commit_id)
        .where(
            run.c.machine_id == newest.machine_id,
            run.c.environment_id == newest.environment_id,
            table.c.position < newest.position,
        )
        .order_by(table.c.position.desc())
    )
    commits = connection.execute(earlier).scalars().all()
    before = next((number for number in commits if number in complete), next(iter(commits), None))
    drivers = [gpu["driver"] for row in rows if (gpu := (row.context or {}).get("gpu")) and gpu.get("driver")]
    return MachineRuns(
        machine=machine,
        environment=environment,
        runs=len(rows),
        newest_run=moment(newest.started_ms),
        gpus=tuple(dict.fromkeys(row.gpu for row in rows if row.gpu)),
        driver=str(drivers[-1]) if drivers else None,
        before=commits_by_id(connection, [before])[before] if before is not None else None,
    )

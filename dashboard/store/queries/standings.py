"""State and level of every workload and implementation; arrival of each machine's data, series that stopped."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import median
from typing import Any

import numpy as np
from sqlalchemy import Connection, Row, func, select

from ...model.overview import OverviewEntry
from ...model.verdict import ChangeKind
from ...statistics.arrival import Arrival, arrival
from .. import schema
from ..commit_index import read_commit_index
from ..engine import Store, cached
from ..finding_records import BelowLimits
from ..mappers import moment, project_id, workloads
from ..points import batches
from ..project_points import points_of_series
from ..statements import id_in
from .overview import overview_rows
from .regressions import below_limits
from .series_lines import gpu_ratios
from .series_list import series_index

_FEWEST_MISSED = 3  # commits


@cached()
def arrivals(store: Store, project: str) -> dict[str, Arrival]:
    """Arrival of each machine's data, by name. A run without a start counts at the date of its commit."""
    run, commit, machine = schema.run, schema.commit, schema.machine
    with store.read() as connection:
        rows = connection.execute(
            select(machine.c.name, func.coalesce(run.c.started_ms, commit.c.date_ms), run.c.commit_id)
            .join_from(run, commit, commit.c.id == run.c.commit_id)
            .join(machine, machine.c.id == run.c.machine_id)
            .where(run.c.project_id == project_id(connection, project))
        )
        runs: dict[str, list[tuple[float, int]]] = {}
        for name, at_ms, commit_id in rows:
            runs.setdefault(name, []).append((at_ms / 1000, commit_id))
    return {name: each for name, own in runs.items() if (each := arrival(own)) is not None}


def stopped(connection: Connection, project: int, series: Sequence[Row[Any]]) -> frozenset[int]:
    """Which of the series their machine no longer measures, while it measures others in the same environment; by id.

    A series has stopped if the machine measured more than three commits since, and more than three times its usual
    interval (the machine's commits until then over the series' values).
    """
    run, commit = schema.run, schema.commit
    rows = connection.execute(
        select(run.c.machine_id, run.c.environment_id, commit.c.position)
        .join(commit, commit.c.id == run.c.commit_id)
        .where(run.c.project_id == project, commit.c.position.is_not(None))
        .distinct()
    )
    measured: dict[tuple[int, int], list[int]] = {}
    for machine, environment, position in rows:
        measured.setdefault((machine, environment), []).append(position)
    sorted_positions = {key: np.sort(np.array(positions)) for key, positions in measured.items()}
    is_newest = id_in(connection, commit.c.id, {row.commit_id for row in series})
    position_of: dict[int, int | None] = {
        row.id: row.position for row in connection.execute(select(commit.c.id, commit.c.position).where(is_newest))
    }
    late = {
        row.id: (len(own) - until, until)
        for row in series
        if (position := position_of[row.commit_id]) is not None
        and (own := sorted_positions.get((row.machine_id, row.environment_id))) is not None
        and len(own) - (until := int(np.searchsorted(own, position, "right"))) > _FEWEST_MISSED
    }
    values = _values(connection, late)
    return frozenset(
        number for number, (since, until) in late.items() if since > _FEWEST_MISSED * until / values.get(number, 1)
    )


def _values(connection: Connection, series: Collection[int]) -> dict[int, int]:
    chunk = schema.chunk
    counted = select(chunk.c.series_id, func.sum(chunk.c.points)).where(id_in(connection, chunk.c.series_id, series))
    return {number: count for number, count in connection.execute(counted.group_by(chunk.c.series_id))}  # noqa: C416


MONTH_DAYS, YEAR_DAYS = 30, 365
_DAY_MS = 24 * 3600 * 1000


def standings(store: Store, project: str, *, machine: str | None = None) -> tuple[OverviewEntry, ...]:
    with store.read() as connection:
        owner = project_id(connection, project)
        rows = [(row, item.summary) for row, item in overview_rows(connection, owner, machine=machine)]
        left_out = stopped(connection, owner, [newest for _, newest in rows])
        below = below_limits(connection, owner, workloads(connection, owner))
        month, year = (_steps(connection, owner, days, below) for days in (MONTH_DAYS, YEAR_DAYS))
        commits_on_gpu = _commits_by_gpu(connection, owner)
        first = _first_data(connection, owner)
    return tuple(
        OverviewEntry(
            row=row,
            is_stopped=newest.id in left_out,
            gpu=newest.gpu,
            gpu_commits=commits_on_gpu.get((newest.machine_id, newest.gpu), 0),
            month=month.get(newest.id, 1.0) - 1,
            year=year.get(newest.id, 1.0) - 1,
            since=moment(first[newest.machine_id]) or row.commit.date,
        )
        for row, newest in rows
    )


def _steps(connection: Connection, project: int, days: int, below: BelowLimits) -> Mapping[int, float]:
    """The product of the steps' level ratios in the days before a series' newest commit, by series id."""
    series, summary, change = schema.series, schema.summary, schema.changepoint
    newest, at = schema.commit.alias(), schema.commit.alias()
    rows = connection.execute(
        select(change.c.series_id, change.c.commit_id, change.c.magnitude)
        .join(series, series.c.id == change.c.series_id)
        .join(summary, summary.c.series_id == series.c.id)
        .join(newest, newest.c.id == summary.c.commit_id)
        .join(at, at.c.id == change.c.commit_id)
        .where(
            series.c.project_id == project,
            series.c.listed,
            change.c.kind == ChangeKind.STEP.value,
            at.c.date_ms > newest.c.date_ms - days * _DAY_MS,
        )
    )
    ratios: dict[int, float] = {}
    for number, commit, magnitude in rows:
        if (number, commit) not in below:
            ratios[number] = ratios.get(number, 1.0) * (1 + magnitude)
    return ratios


def _commits_by_gpu(connection: Connection, project: int) -> Mapping[tuple[int, str | None], int]:
    run = schema.run
    counted: Any = func.count(run.c.commit_id.distinct())
    rows = connection.execute(
        select(run.c.machine_id, run.c.gpu, counted)
        .where(run.c.project_id == project, run.c.gpu.is_not(None))
        .group_by(run.c.machine_id, run.c.gpu)
    )
    return {(machine, gpu): count for machine, gpu, count in rows}


def _first_data(connection: Connection, project: int) -> Mapping[int, int]:
    run, commit = schema.run, schema.commit
    rows = connection.execute(
        select(run.c.machine_id, func.min(commit.c.date_ms))
        .join(commit, commit.c.id == run.c.commit_id)
        .where(run.c.project_id == project)
        .group_by(run.c.machine_id)
    )
    return {machine: at_ms for machine, at_ms in rows}  # noqa: C416


_KEYS_AT_ONCE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Levels:
    """Levels by key of the series and id of the commit."""

    commits: tuple[int, ...]  # ids, oldest first
    by_key: Mapping[str, Mapping[int, float]]


def levels(store: Store, project: str, keys: Collection[str]) -> Levels:
    """The levels of these series; those without a number are missing."""
    series = schema.series
    with store.read() as connection:
        owner = project_id(connection, project)
        chosen: dict[int, str] = {}
        for batch in batches(sorted(keys), _KEYS_AT_ONCE):
            rows = select(series.c.id, series.c.key).where(series.c.project_id == owner, series.c.key.in_(batch))
            chosen.update((row.id, row.key) for row in connection.execute(rows))
        index = read_commit_index(connection, owner)
        points = points_of_series(connection, index, chosen)
    found: dict[str, dict[int, float]] = {}
    for number, key in chosen.items():
        if (own := points.of(number)) is not None:
            at = own.start + np.flatnonzero(points.has_number[own])
            pairs = zip(points.points.commit[at].tolist(), points.points.value[at].tolist(), strict=True)
            found[key] = {
                commit: median(value for _, value in runs) for commit, runs in groupby(pairs, key=lambda pair: pair[0])
            }
    order = np.lexsort((index.date_ms, index.position))
    return Levels(commits=tuple(index.commits[order].tolist()), by_key=found)


def adjusting_ratios(store: Store, project: str, keys: Collection[str]) -> Mapping[str, tuple[float | None, ...]]:
    """GPU-adjusted over measured level of each commit with a number, by key: of series of several GPUs."""
    chosen = {
        number: key for number, entry in series_index(store, project).items() if (key := entry.series.key) in keys
    }
    with store.read() as connection:
        return {chosen[number]: tuple(each) for number, each in gpu_ratios(connection, list(chosen)).items()}

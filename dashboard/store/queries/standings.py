"""When each machine measured which commit, and the state of every kernel."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlalchemy import Connection, func, select

from ...model.overview import OverviewEntry
from ...model.verdict import ChangeKind
from ...statistics.arrival import Arrival, arrival
from .. import schema
from ..engine import Store
from ..mappers import moment, project_id, workloads
from .overview import overview_rows
from .regressions import BelowLimits, below_limits

# When each machine measured which commit, and which series it left behind.

_FEWEST_MISSED = 3  # commits


def arrivals(store: Store, project: str) -> dict[str, Arrival]:
    """How data of each machine comes, by its name. A run that does not say when it began counts by its commit."""
    return store.cached(project, "arrivals", lambda: _arrivals(store, project))


def _arrivals(store: Store, project: str) -> dict[str, Arrival]:
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
    return {name: told for name, its in runs.items() if (told := arrival(its)) is not None}


def stopped(connection: Connection, project: int) -> frozenset[int]:
    """The listed series that their machine has left out, though it went on measuring in the same environment.

    By the number of commits that it has measured since: more than three, and more than three times as many as usually
    lie between two values of the series (the machine's commits until then over the series' values).
    """
    run, commit, series, summary = schema.run, schema.commit, schema.series, schema.summary
    rows = connection.execute(
        select(run.c.machine_id, run.c.environment_id, commit.c.position)
        .join(commit, commit.c.id == run.c.commit_id)
        .where(run.c.project_id == project, commit.c.position.is_not(None))
        .distinct()
    )
    measured: dict[tuple[int, int], list[int]] = {}
    for machine, environment, position in rows:
        measured.setdefault((machine, environment), []).append(position)
    places = {place: np.sort(np.array(positions)) for place, positions in measured.items()}
    newest = connection.execute(
        select(series.c.id, series.c.machine_id, series.c.environment_id, commit.c.position)
        .join(summary, summary.c.series_id == series.c.id)
        .join(commit, commit.c.id == summary.c.commit_id)
        .where(series.c.project_id == project, series.c.listed, commit.c.position.is_not(None))
    ).all()
    late = {
        row.id: (len(its) - until, until)
        for row in newest
        if (its := places.get((row.machine_id, row.environment_id))) is not None
        and len(its) - (until := int(np.searchsorted(its, row.position, "right"))) > _FEWEST_MISSED
    }
    values = _values(connection, late)
    return frozenset(
        number for number, (since, until) in late.items() if since > _FEWEST_MISSED * until / values.get(number, 1)
    )


def _values(connection: Connection, series: Any) -> dict[int, int]:
    chunk = schema.chunk
    if not series:
        return {}
    counted = select(chunk.c.series_id, func.sum(chunk.c.points)).group_by(chunk.c.series_id)
    return {number: count for number, count in connection.execute(counted) if number in series}


MONTH_DAYS, YEAR_DAYS = 30, 365
_DAY_MS = 24 * 3600 * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """Where a series' newest value comes from."""

    series: int
    machine: int
    card: str | None


def standings(store: Store, project: str) -> tuple[OverviewEntry, ...]:
    """All rows of the overview, of every machine."""
    with store.read() as connection:
        owner = project_id(connection, project)
        if owner is None:
            return ()
        rows = overview_rows(connection, owner)
        places = _places(connection, owner)
        left_out = stopped(connection, owner)
        below = below_limits(connection, owner, workloads(connection, owner))
        month, year = (_steps(connection, owner, days, below) for days in (MONTH_DAYS, YEAR_DAYS))
        on_card = _commits_on_cards(connection, owner)
        first = _first_data(connection, owner)
    return tuple(
        OverviewEntry(
            row=row,
            is_stopped=its.series in left_out,
            gpu=its.card,
            gpu_commits=on_card.get((its.machine, its.card), 0),
            month=month.get(its.series, 1.0) - 1,
            year=year.get(its.series, 1.0) - 1,
            since=moment(first[its.machine]) or row.commit.date,
        )
        for row in rows
        for its in (places[row.series.key],)
    )


def _places(connection: Connection, project: int) -> dict[str, _Place]:
    series, summary, run = schema.series, schema.summary, schema.run
    rows = connection.execute(
        select(series.c.key, series.c.id, series.c.machine_id, run.c.card)
        .join(summary, summary.c.series_id == series.c.id)
        .join(run, run.c.id == summary.c.run_id)
        .where(series.c.project_id == project)
    )
    return {row.key: _Place(series=row.id, machine=row.machine_id, card=row.card) for row in rows}


def _steps(connection: Connection, project: int, days: int, below: BelowLimits) -> Mapping[int, float]:
    """The ratio of levels that the steps that count, of so many days before a series' newest commit, amount to, by
    series.
    """
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
    found: dict[int, float] = {}
    for number, commit, magnitude in rows:
        if (number, commit) not in below:
            found[number] = found.get(number, 1.0) * (1 + magnitude)
    return found


def _commits_on_cards(connection: Connection, project: int) -> Mapping[tuple[int, str | None], int]:
    run = schema.run
    counted: Any = func.count(run.c.commit_id.distinct())
    rows = connection.execute(
        select(run.c.machine_id, run.c.card, counted)
        .where(run.c.project_id == project, run.c.card.is_not(None))
        .group_by(run.c.machine_id, run.c.card)
    )
    return {(machine, card): count for machine, card, count in rows}


def _first_data(connection: Connection, project: int) -> Mapping[int, int]:
    run, commit = schema.run, schema.commit
    rows = connection.execute(
        select(run.c.machine_id, func.min(commit.c.date_ms))
        .join(commit, commit.c.id == run.c.commit_id)
        .where(run.c.project_id == project)
        .group_by(run.c.machine_id)
    )
    return {machine: at_ms for machine, at_ms in rows}  # noqa: C416

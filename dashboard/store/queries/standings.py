"""How every kernel stands: the overview's rows with their steps of a month and a year, and the card they rest on."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, func, select

from warpwatch.dashboard.statistics.change_kind import ChangeKind
from warpwatch.dashboard.store import tables
from warpwatch.dashboard.store.queries.arrivals import stopped
from warpwatch.dashboard.store.queries.below_limits import BelowLimits, below_limits
from warpwatch.dashboard.store.queries.overview import overview_rows
from warpwatch.dashboard.store.reading import moment, project_id, workloads
from warpwatch.dashboard.store.standing import Standing
from warpwatch.dashboard.store.store import Store

MONTH_DAYS, YEAR_DAYS = 30, 365
_DAY_MS = 24 * 3600 * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """Where a series' newest value comes from."""

    series: int
    machine: int
    card: str | None


def standings(store: Store, project: str) -> tuple[Standing, ...]:
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
        Standing(
            row=row,
            is_stopped=its.series in left_out,
            card=its.card,
            card_commits=on_card.get((its.machine, its.card), 0),
            month=month.get(its.series, 1.0) - 1,
            year=year.get(its.series, 1.0) - 1,
            since=moment(first[its.machine]) or row.commit.date,
        )
        for row in rows
        for its in (places[row.series.key],)
    )


def _places(connection: Connection, project: int) -> dict[str, _Place]:
    series, summary, run = tables.series, tables.summary, tables.run
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
    series, summary, change = tables.series, tables.summary, tables.changepoint
    newest, at = tables.commit.alias(), tables.commit.alias()
    rows = connection.execute(
        select(change.c.series_id, change.c.commit_id, change.c.magnitude)
        .join(series, series.c.id == change.c.series_id)
        .join(summary, summary.c.series_id == series.c.id)
        .join(newest, newest.c.id == summary.c.commit_id)
        .join(at, at.c.id == change.c.commit_id)
        .where(
            series.c.project_id == project, series.c.listed, change.c.kind == ChangeKind.STEP.value,
            at.c.date_ms > newest.c.date_ms - days * _DAY_MS,
        )
    )  # fmt: skip
    found: dict[int, float] = {}
    for number, commit, magnitude in rows:
        if (number, commit) not in below:
            found[number] = found.get(number, 1.0) * (1 + magnitude)
    return found


def _commits_on_cards(connection: Connection, project: int) -> Mapping[tuple[int, str | None], int]:
    run = tables.run
    counted: Any = func.count(run.c.commit_id.distinct())
    rows = connection.execute(
        select(run.c.machine_id, run.c.card, counted)
        .where(run.c.project_id == project, run.c.card.is_not(None))
        .group_by(run.c.machine_id, run.c.card)
    )
    return {(machine, card): count for machine, card, count in rows}


def _first_data(connection: Connection, project: int) -> Mapping[int, int]:
    run, commit = tables.run, tables.commit
    rows = connection.execute(
        select(run.c.machine_id, func.min(commit.c.date_ms))
        .join(commit, commit.c.id == run.c.commit_id)
        .where(run.c.project_id == project)
        .group_by(run.c.machine_id)
    )
    return {machine: at_ms for machine, at_ms in rows}  # noqa: C416

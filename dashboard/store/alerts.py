"""Alerts in the store: which regressions are new, which alerts are open, and how they moved on."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from sqlalchemy import Connection, insert, select, update

from warpwatch.dashboard.statistics.false_discovery import LIMIT
from warpwatch.dashboard.store import tables
from warpwatch.dashboard.store.outbox import queue_messages
from warpwatch.dashboard.store.queries.commits import commits
from warpwatch.dashboard.store.queries.reading import (
    commits_by_id,
    project_id,
    select_series,
    series_record,
    workloads,
)
from warpwatch.dashboard.store.queries.regressions import regressions
from warpwatch.dashboard.store.records import Commit, RegressionGroup, Series
from warpwatch.dashboard.store.rows import insert_new
from warpwatch.dashboard.store.store import Store

SAME_PLACE = 5  # commits with a number that a changepoint may wander as data comes in, and still be the same


class AlertState(StrEnum):
    """Where an alert stands."""

    OPEN = "open"
    ACKNOWLEDGED = "acknowledged"
    EXPECTED = "expected"
    FALSE_ALARM = "false alarm"
    RESOLVED = "resolved"


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertedSeries:
    """One series of an alert, as it was when the alert opened."""

    series: Series
    magnitude: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertEvent:
    """A step in an alert's life."""

    at: datetime
    state: AlertState
    author: str | None
    note: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """Series that got worse at one commit on one machine, and what became of it."""

    id: int
    project: str
    machine: str
    commit: Commit
    previous_commit: Commit
    state: AlertState
    opened: datetime
    series: tuple[AlertedSeries, ...]
    events: tuple[AlertEvent, ...]


def new_regressions(
    store: Store, project: str, *, recent_days: float = 30, limit: int = 1000, most_false: float = LIMIT
) -> tuple[RegressionGroup, ...]:
    """Regression groups without the regressions that some alert already holds; empty groups are left out.

    Steps alone, that were judged with the rest of their machine, and of those up to a false discovery rate: so many of
    the changes told at one commit and machine may be chance. What exceeds it is told once more runs bear it out.

    Only commits at most `recent_days` older than the project's newest: a first import of years of history is no news.
    A changepoint of an alerted series within SAME_PLACE commits of the alerted one is the same regression.
    """
    newest = next(iter(commits(store, project, limit=1)), None)
    if newest is None:
        return ()
    since = newest.date - timedelta(days=recent_days)
    groups = [group for group in regressions(store, project, limit=limit) if group.commit.date >= since]
    table = tables.alert_series
    with store.read() as connection:
        rows = connection.execute(
            select(tables.series.c.key, table.c.place, tables.commit.c.hash)
            .join(tables.series, tables.series.c.id == table.c.series_id)
            .join(tables.commit, tables.commit.c.id == table.c.commit_id)
        ).all()
    alerted: dict[str, list[tuple[int, str]]] = {}
    for row in rows:
        alerted.setdefault(row.key, []).append((row.place, row.hash))
    found = []
    for group in groups:
        fresh = tuple(
            one
            for one in group.regressions
            if one.change.q_value is not None
            and one.change.q_value <= most_false
            and not any(
                abs(one.change.index - place) <= SAME_PLACE or one.change.commit.hash == commit
                for place, commit in alerted.get(one.series.key, ())
            )
        )
        if fresh:
            found.append(
                RegressionGroup(
                    project=group.project, machine=group.machine, commit=group.commit,
                    previous_commit=group.previous_commit, regressions=fresh,
                )
            )  # fmt: skip
    return tuple(found)


def open_alert(
    store: Store, group: RegressionGroup, *, messages: Mapping[str, str], now_ms: int, kind: str = "opened"
) -> int | None:
    """Records an alert with its message to each destination (destination -> payload), in one transaction.

    Returns its id, or None if another process has alerted all its regressions meanwhile: then nothing is sent.
    """
    with store.write(group.project) as connection:
        series = {one.series.key: one.change for one in group.regressions}
        rows = connection.execute(
            select(tables.series.c.id, tables.series.c.key, tables.series.c.project_id, tables.series.c.machine_id)
            .where(tables.series.c.key.in_(series))
        ).all()  # fmt: skip
        if not rows:
            return None
        owner, machine = rows[0].project_id, rows[0].machine_id
        commit_ids = _commit_ids(connection, owner, [c for x in series.values() for c in (x.commit, x.previous_commit)])
        taken = {
            tuple(row)
            for row in connection.execute(
                select(tables.alert_series.c.series_id, tables.alert_series.c.commit_id)
                .where(tables.alert_series.c.series_id.in_([row.id for row in rows]))
            )
        }  # fmt: skip
        fresh = [row for row in rows if (row.id, commit_ids[series[row.key].commit.hash]) not in taken]
        if not fresh:
            return None
        values = {"project_id": owner, "machine_id": machine, "commit_id": commit_ids[group.commit.hash],
                  "previous_commit_id": commit_ids[group.previous_commit.hash],
                  "state": AlertState.OPEN.value, "opened_ms": now_ms}  # fmt: skip
        alert = connection.execute(insert(tables.alert).values(**values).returning(tables.alert.c.id)).scalar_one()
        insert_new(
            connection,
            tables.alert_series,
            [
                {"alert_id": alert, "series_id": row.id, "commit_id": commit_ids[change.commit.hash],
                 "place": change.index, "magnitude": change.magnitude, "low": change.low, "high": change.high}
                for row in fresh
                for change in [series[row.key]]
            ],
        )  # fmt: skip
        _add_event(connection, alert, AlertState.OPEN, now_ms, None, None)
        queue_messages(connection, alert, kind, messages)
        return int(alert)


def set_state(
    store: Store, alert_id: int, state: AlertState, *, now_ms: int, author: str | None = None,
    note: str | None = None, messages: Mapping[str, str] | None = None,
) -> bool:  # fmt: skip
    """Moves an alert to another state, with messages of that state's kind; False if it is there already or unknown."""
    with store.write("alerts") as connection:
        table = tables.alert
        done = connection.execute(
            update(table).where(table.c.id == alert_id, table.c.state != state.value).values(state=state.value)
        )
        if not done.rowcount:
            return False
        _add_event(connection, alert_id, state, now_ms, author, note)
        queue_messages(connection, alert_id, state.value, messages or {})
        return True


def alerts(
    store: Store, project: str, *, states: Sequence[AlertState] = tuple(AlertState), limit: int = 200
) -> tuple[Alert, ...]:
    """The project's alerts in any of the states, newest first."""
    table = tables.alert
    with store.read() as connection:
        owner = project_id(connection, project)
        if owner is None:
            return ()
        known = workloads(connection, owner)
        rows = connection.execute(
            select(table, tables.machine.c.name.label("machine_name"))
            .join(tables.machine, tables.machine.c.id == table.c.machine_id)
            .where(table.c.project_id == owner, table.c.state.in_([state.value for state in states]))
            .order_by(table.c.opened_ms.desc(), table.c.id.desc())
            .limit(limit)
        ).all()
        ids = [row.id for row in rows]
        its = commits_by_id(connection, (i for row in rows for i in (row.commit_id, row.previous_commit_id)))
        part = tables.alert_series
        parts: dict[int, list[AlertedSeries]] = {}
        for row in connection.execute(
            select_series(part.c.alert_id, part.c.magnitude, part.c.low, part.c.high)
            .join(part, part.c.series_id == tables.series.c.id)
            .where(part.c.alert_id.in_(ids))
        ):
            one = AlertedSeries(series=series_record(row, known), magnitude=row.magnitude, low=row.low, high=row.high)
            parts.setdefault(row.alert_id, []).append(one)
        events: dict[int, list[AlertEvent]] = {}
        event = tables.alert_event
        for row in connection.execute(select(event).where(event.c.alert_id.in_(ids)).order_by(event.c.id)):
            one_event = AlertEvent(at=_time(row.at_ms), state=AlertState(row.state), author=row.author, note=row.note)
            events.setdefault(row.alert_id, []).append(one_event)
    return tuple(
        Alert(
            id=row.id, project=project, machine=row.machine_name, commit=its[row.commit_id],
            previous_commit=its[row.previous_commit_id], state=AlertState(row.state), opened=_time(row.opened_ms),
            series=tuple(sorted(parts.get(row.id, ()), key=lambda one: -abs(one.magnitude))),
            events=tuple(events.get(row.id, ())),
        )
        for row in rows
    )  # fmt: skip


def _time(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def _commit_ids(connection: Connection, owner: int, commits: Iterable[Commit]) -> dict[str, int]:
    table = tables.commit
    rows = connection.execute(
        select(table.c.hash, table.c.id).where(
            table.c.project_id == owner, table.c.hash.in_({commit.hash for commit in commits})
        )
    )
    return {row.hash: row.id for row in rows}


def _add_event(
    connection: Connection, alert: int, state: AlertState, now_ms: int, author: str | None, note: str | None
) -> None:
    values = {"alert_id": alert, "at_ms": now_ms, "state": state.value, "author": author, "note": note}
    connection.execute(insert(tables.alert_event).values(**values))

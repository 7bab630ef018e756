"""Alerts in the store: which regressions are new, which alerts are open, and how they moved on.

What people do with them is triage.py's.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row, insert, select, update

from warpwatch.dashboard.statistics.false_discovery import LIMIT
from warpwatch.dashboard.store import tables
from warpwatch.dashboard.store.alert_records import (
    Alert,
    AlertedSeries,
    AlertEvent,
    AlertState,
    EventKind,
    StatedChange,
)
from warpwatch.dashboard.store.choosing import is_among
from warpwatch.dashboard.store.outbox import queue_messages
from warpwatch.dashboard.store.queries.commits import commits
from warpwatch.dashboard.store.queries.reading import (
    Workloads,
    commits_by_id,
    project_id,
    select_series,
    series_record,
    workloads,
)
from warpwatch.dashboard.store.queries.regressions import regressions
from warpwatch.dashboard.store.records import Commit, RegressionGroup
from warpwatch.dashboard.store.rows import insert_new
from warpwatch.dashboard.store.store import Store

SAME_PLACE = 5  # commits with a number that a changepoint may wander as data comes in, and still be the same


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
        alert = insert_alert(
            connection,
            {"project_id": owner, "machine_id": machine, "commit_id": commit_ids[group.commit.hash],
             "previous_commit_id": commit_ids[group.previous_commit.hash]},
            [
                {"series_id": row.id, "commit_id": commit_ids[change.commit.hash], "place": change.index,
                 "magnitude": change.magnitude, "low": change.low, "high": change.high}
                for row in fresh
                for change in [series[row.key]]
            ],
            now_ms=now_ms,
        )  # fmt: skip
        queue_messages(connection, alert, kind, messages)
        return alert


def insert_alert(
    connection: Connection, place: Mapping[str, int], series: Sequence[Mapping[str, Any]], *, now_ms: int,
    author: str | None = None,
) -> int:  # fmt: skip
    """Adds an open alert of series that no other alert holds, with its first event; returns its id."""
    values = {**place, "state": AlertState.OPEN.value, "opened_ms": now_ms}
    alert = int(connection.execute(insert(tables.alert).values(**values).returning(tables.alert.c.id)).scalar_one())
    insert_new(connection, tables.alert_series, [{**each, "alert_id": alert} for each in series])
    add_event(connection, alert, AlertState.OPEN, now_ms=now_ms, author=author)
    return alert


def add_event(
    connection: Connection, alert: int, state: AlertState, *, now_ms: int, author: str | None,
    note: str | None = None, kind: EventKind = EventKind.STATE, detail: str | None = None,
) -> None:  # fmt: skip
    """Adds a step to an alert's history."""
    values = {"alert_id": alert, "at_ms": now_ms, "state": state.value, "author": author, "note": note,
              "kind": kind.value, "detail": detail}  # fmt: skip
    connection.execute(insert(tables.alert_event).values(**values))


def set_state(
    store: Store, alert_id: int, state: AlertState, *, now_ms: int, author: str | None = None,
    note: str | None = None, messages: Mapping[str, str] | None = None,
) -> bool:  # fmt: skip
    """Moves an alert to another state, with messages of that state's kind; False if it is there already or unknown."""
    with store.write("alerts") as connection:
        table = tables.alert
        done = connection.execute(
            update(table)
            .where(table.c.id == alert_id, table.c.state != state.value)
            .values(state=state.value, version=table.c.version + 1)
        )
        if not done.rowcount:
            return False
        add_event(connection, alert_id, state, now_ms=now_ms, author=author, note=note)
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
        rows = connection.execute(
            select(table, tables.machine.c.name.label("machine_name"))
            .join(tables.machine, tables.machine.c.id == table.c.machine_id)
            .where(table.c.project_id == owner, table.c.state.in_([state.value for state in states]))
            .order_by(table.c.opened_ms.desc(), table.c.id.desc())
            .limit(limit)
        ).all()
        return _records(connection, project, owner, rows)


def alerts_by_id(connection: Connection, project: str, owner: int, ids: Iterable[int]) -> dict[int, Alert]:
    """Those of the alerts that are the project's."""
    table = tables.alert
    rows = connection.execute(
        select(table, tables.machine.c.name.label("machine_name"))
        .join(tables.machine, tables.machine.c.id == table.c.machine_id)
        .where(table.c.project_id == owner, is_among(connection, table.c.id, list(ids)))
    ).all()
    return {alert.id: alert for alert in _records(connection, project, owner, rows)}


def _records(connection: Connection, project: str, owner: int, rows: Sequence[Row[Any]]) -> tuple[Alert, ...]:
    """Rows of the alert table with `machine_name`, as records in the same order."""
    known = workloads(connection, owner) if rows else Workloads()
    ids = [row.id for row in rows]
    said = tables.stated_change
    stated_rows = {row.alert_id: row for row in connection.execute(select(said).where(said.c.alert_id.in_(ids)))}
    its = commits_by_id(
        connection, (i for row in (*rows, *stated_rows.values()) for i in (row.commit_id, row.previous_commit_id))
    )
    stated = {
        number: StatedChange(
            commit=its[row.commit_id], previous_commit=its[row.previous_commit_id], author=row.author,
            at=_time(row.stated_ms),
        )
        for number, row in stated_rows.items()
    }  # fmt: skip
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
        events.setdefault(row.alert_id, []).append(
            AlertEvent(
                at=_time(row.at_ms), state=AlertState(row.state), author=row.author, note=row.note,
                kind=EventKind(row.kind), detail=row.detail,
            )
        )  # fmt: skip
    return tuple(
        Alert(
            id=row.id, project=project, machine=row.machine_name, commit=its[row.commit_id],
            previous_commit=its[row.previous_commit_id], state=AlertState(row.state), opened=_time(row.opened_ms),
            series=tuple(sorted(parts.get(row.id, ()), key=lambda one: -abs(one.magnitude))),
            events=tuple(events.get(row.id, ())), assignee=row.assignee, link=row.link, version=row.version,
            stated=stated.get(row.id),
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

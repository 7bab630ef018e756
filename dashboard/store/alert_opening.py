"""Open alerts, each with its first event and messages in one transaction; whether a change belongs to an alert."""

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, insert, select

from ..model.alert import SAME_PLACE, AlertKind, AlertState, EventKind, HealthFinding, LastNotification
from ..model.changepoint import RegressionGroup, SeriesChange
from . import schema
from .engine import Store
from .mappers import commit_ids, project_id
from .outbox import queue_messages
from .statements import insert_new, is_one_of


class AlertMembership:
    """The series of a project's alerts, and which alert a changepoint of one of them belongs to.

    A changepoint of an alerted series is the same regression if it is within SAME_PLACE commits with a number of the
    alerted one, or at the same commit, or in the alert's range of suspects, now or when it was opened: commits measured
    later narrow the range, and a run with outliers may narrow it too far.
    """

    def __init__(self, connection: Connection, project: int) -> None:
        part, alert, own = schema.alert_series, schema.alert, schema.commit
        first, good = own.alias(), own.alias()
        rows = connection.execute(
            select(
                schema.series.c.key,
                part.c.alert_id,
                part.c.place,
                own.c.hash,
                own.c.position,
                alert.c.notified,
                first.c.position.label("first_bad"),
                good.c.position.label("last_good"),
            )
            .join(schema.series, schema.series.c.id == part.c.series_id)
            .join(own, own.c.id == part.c.commit_id)
            .join(alert, alert.c.id == part.c.alert_id)
            .join(first, first.c.id == alert.c.commit_id)
            .join(good, good.c.id == alert.c.previous_commit_id)
            .where(alert.c.project_id == project)
        ).all()
        self._first_ranges = _first_ranges(connection, project, rows)
        self._alerted: dict[str, list[Any]] = {}
        for row in rows:
            self._alerted.setdefault(row.key, []).append(row)

    def alert_of_change(self, series: str, change: SeriesChange) -> int | None:
        """The id of the alert of a change, by series key; None without an alert."""
        return self.alert_of(series, change.commit.hash, change.commit.position, change.index)

    def alert_of(self, series: str, commit: str, position: int, place: int) -> int | None:
        """The same by hash and position of the change's commit, and its index among commits with a number."""
        same = [row for row in self._alerted.get(series, ()) if self._is_same(row, commit, position, place)]
        return min((abs(place - row.place), row.alert_id) for row in same)[1] if same else None

    def _is_same(self, row: Any, commit: str, position: int, place: int) -> bool:
        if abs(place - row.place) <= SAME_PLACE or commit == row.hash:
            return True
        opened = self._first_ranges.get(row.alert_id)
        if opened is not None and opened[0] < position <= opened[1]:
            return True
        if None in (row.position, row.first_bad, row.last_good):
            return False
        return bool(row.last_good < position <= max(row.first_bad, row.position))


def _first_ranges(connection: Connection, project: int, rows: Sequence[Any]) -> dict[int, tuple[int, int]]:
    """Positions of the last good and the first bad commit of the first message, of alerts that sent one."""
    ranges = {row.alert_id: tuple(row.notified["first_range"]) for row in rows if row.notified}
    table = schema.commit
    names = {name for ends in ranges.values() for name in ends}
    positions = {
        row.hash: row.position
        for row in connection.execute(
            select(table.c.hash, table.c.position).where(
                table.c.project_id == project, is_one_of(connection, table.c.hash, names)
            )
        )
    }
    known = {number: tuple(positions.get(name) for name in ends) for number, ends in ranges.items()}
    return {number: (start, end) for number, (start, end) in known.items() if start is not None and end is not None}


def open_regression_alert(
    store: Store,
    group: RegressionGroup,
    *,
    messages: Mapping[str, str],
    now_ms: int,
    thread: str | None = None,
    notified: LastNotification | None = None,
) -> int | None:
    """Open an alert with its message to each destination (destination -> payload).

    Returns its id, or None, without messages, if all regressions of the group belong to alerts already.
    """
    with store.write(group.project, of_project=True) as connection:
        changes = {one.series.key: one.change for one in group.regressions}
        is_changed = is_one_of(connection, schema.series.c.key, changes)
        rows = connection.execute(select(schema.series).where(is_changed)).all()
        if not rows:
            return None
        owner, machine = rows[0].project_id, rows[0].machine_id
        hashes = {end.hash for change in changes.values() for end in (change.commit, change.previous_commit)}
        ids = commit_ids(connection, owner, hashes)
        membership = AlertMembership(connection, owner)
        fresh = [row for row in rows if membership.alert_of_change(row.key, changes[row.key]) is None]
        if not fresh:
            return None
        series = [
            {
                "series_id": row.id,
                "commit_id": ids[change.commit.hash],
                "place": change.index,
                "magnitude": change.magnitude,
                "low": change.ci_low,
                "high": change.ci_high,
            }
            for row in fresh
            for change in [changes[row.key]]
        ]
        values = {
            "project_id": owner,
            "machine_id": machine,
            "kind": AlertKind.REGRESSION.value,
            "commit_id": ids[group.commit.hash],
            "previous_commit_id": ids[group.previous_commit.hash],
            "notified": notified and notified.as_json(),
        }
        return insert_alert(connection, values, series, thread=thread, messages=messages, now_ms=now_ms)


def open_health_alert(
    store: Store, project: str, finding: HealthFinding, *, thread: str, messages: Mapping[str, str], now_ms: int
) -> int | None:
    """Open an alert with its message to each destination (destination -> payload).

    Returns its id, or None, without messages, if an unresolved alert has its kind and subject, or the machine is gone.
    """
    alert, machine = schema.alert, schema.machine
    with store.write(project, of_project=True) as connection:
        owner = project_id(connection, project)
        machine_id = connection.execute(
            select(machine.c.id).where(machine.c.project_id == owner, machine.c.name == finding.machine)
        ).scalar()
        known = connection.execute(
            select(alert.c.id).where(
                alert.c.project_id == owner,
                alert.c.kind == finding.kind.value,
                alert.c.subject == finding.subject,
                alert.c.state != AlertState.RESOLVED.value,
            )
        ).first()
        if machine_id is None or known is not None:
            return None
        values = {
            "project_id": owner,
            "machine_id": machine_id,
            "kind": finding.kind.value,
            "subject": finding.subject,
            "finding": finding.as_json(),
        }
        return insert_alert(connection, values, (), thread=thread, messages=messages, now_ms=now_ms)


def insert_alert(
    connection: Connection,
    values: Mapping[str, Any],
    series: Sequence[Mapping[str, Any]],
    *,
    now_ms: int,
    thread: str | None = None,
    messages: Mapping[str, str] | None = None,
    author: str | None = None,
) -> int:
    """Insert an open alert of series without another alert, with its first event; return its id.

    `messages` None: no notification, and the first later message has the number 1.
    """
    table, thread = schema.alert, thread or uuid.uuid4().hex
    row = {
        **values,
        "state": AlertState.OPEN.value,
        "opened_ms": now_ms,
        "thread": thread,
        "messages": int(messages is not None),
    }
    alert = int(connection.execute(insert(table).values(**row).returning(table.c.id)).scalar_one())
    insert_new(connection, schema.alert_series, [{**each, "alert_id": alert} for each in series])
    add_event(connection, alert, AlertState.OPEN, now_ms=now_ms, author=author)
    queue_messages(connection, values["project_id"], thread, 1, messages or {}, now_ms=now_ms)
    return alert


def add_event(
    connection: Connection,
    alert: int,
    state: AlertState,
    *,
    now_ms: int,
    author: str | None,
    note: str | None = None,
    kind: EventKind = EventKind.STATE,
    detail: str | None = None,
) -> None:
    """Add an event to an alert's history; `state`: after the event."""
    values = {
        "alert_id": alert,
        "at_ms": now_ms,
        "state": state.value,
        "author": author,
        "note": note,
        "kind": kind.value,
        "detail": detail,
    }
    connection.execute(insert(schema.alert_event).values(**values))

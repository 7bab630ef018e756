"""Open alerts, each with its first event and messages in one transaction."""

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, insert, select

from ..model.alert import AlertKind, AlertState, EventKind, HealthFinding, LastNotification
from ..model.changepoint import RegressionGroup
from . import schema
from .alert_membership import AlertMembership
from .engine import Store
from .mappers import commit_ids, project_id
from .outbox import queue_messages
from .statements import insert_new, is_one_of


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

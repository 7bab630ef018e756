"""Alerts of the data itself: it does not come, a runner cannot be trusted, a kernel gives no number.

Each is opened once for its kind and subject, updated when more of it is found, and resolved when it is found no more.
In between people say what it is (triage.py); of what is expected, or a false alarm, nothing more is told.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import ColumnElement, Row, insert, select, update

from ..model.alert import AlertEvent, AlertState, EventKind
from . import schema
from .alerts import add_event, events_of
from .engine import Store
from .mappers import moment, project_id
from .outbox import queue_messages


class HealthKind(StrEnum):
    """What is wrong."""

    MISSING = "missing data"
    RUNNER = "unhealthy runner"
    FAILED_CHECK = "failed check"  # wrong results, which the correctness gate refused
    NO_NUMBER = "no number"  # exceptions, crashes, time limits


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthFinding:
    """What is found wrong now. `members` tell one state of it from another: with further ones it is told again."""

    kind: HealthKind
    subject: str  # names it among those of its kind: a machine, a kernel on a machine
    machine: str
    kernel: str | None  # None: of all
    says: str  # in one line
    members: tuple[str, ...]
    lines: tuple[str, ...]  # the whole, one fact each

    def as_json(self) -> dict[str, Any]:
        """For the store."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthAlert:
    """One of them, as it was told last."""

    id: int
    project: str
    finding: HealthFinding
    thread: str
    messages: int
    opened: datetime
    resolved: datetime | None
    state: AlertState
    assignee: str | None
    link: str | None
    version: int
    events: tuple[AlertEvent, ...]

    @property
    def is_told(self) -> bool:
        """Whether messages go out of it."""
        return self.state not in {AlertState.EXPECTED, AlertState.FALSE_ALARM}


def health_alerts(store: Store, project: str, *, since_ms: int | None = None) -> tuple[HealthAlert, ...]:
    """The open ones, and those that were resolved at `since_ms` or later; the newest first."""
    table = schema.health_alert
    wanted: ColumnElement[bool] = table.c.resolved_ms.is_(None)
    if since_ms is not None:
        wanted = wanted | (table.c.resolved_ms >= since_ms)
    with store.read() as connection:
        rows = connection.execute(
            select(table)
            .where(table.c.project_id == project_id(connection, project), wanted)
            .order_by(table.c.opened_ms.desc(), table.c.id.desc())
        ).all()
        events = events_of(connection, [row.id for row in rows], schema.health_event)
    return tuple(_record(project, row, events.get(row.id, ())) for row in rows)


def _record(project: str, row: Row[Any], events: Sequence[AlertEvent]) -> HealthAlert:
    opened = moment(row.opened_ms)
    assert opened is not None
    told = row.finding
    finding = HealthFinding(
        kind=HealthKind(told["kind"]),
        subject=told["subject"],
        machine=told["machine"],
        kernel=told["kernel"],
        says=told["says"],
        members=tuple(told["members"]),
        lines=tuple(told["lines"]),
    )
    return HealthAlert(
        id=row.id,
        project=project,
        finding=finding,
        thread=row.thread,
        messages=row.messages,
        opened=opened,
        resolved=moment(row.resolved_ms),
        state=AlertState(row.state),
        assignee=row.assignee,
        link=row.link,
        version=row.version,
        events=tuple(events),
    )


def open_health_alert(
    store: Store, project: str, finding: HealthFinding, *, thread: str, messages: Mapping[str, str], now_ms: int
) -> bool:
    """Opens one with its messages (destination -> payload); False if one of its kind and subject is open."""
    table = schema.health_alert
    with store.write(project, of_project=True) as connection:
        owner = project_id(connection, project)
        is_open = connection.execute(
            select(table.c.id).where(
                table.c.project_id == owner,
                table.c.kind == finding.kind.value,
                table.c.subject == finding.subject,
                table.c.resolved_ms.is_(None),
            )
        ).first()
        if owner is None or is_open is not None:
            return False
        values = {
            "project_id": owner,
            "kind": finding.kind.value,
            "subject": finding.subject,
            "finding": finding.as_json(),
            "thread": thread,
            "messages": 1,
            "opened_ms": now_ms,
        }
        alert = int(connection.execute(insert(table).values(**values).returning(table.c.id)).scalar_one())
        add_event(connection, alert, AlertState.OPEN, now_ms=now_ms, author=None, table=schema.health_event)
        queue_messages(connection, owner, thread, 1, messages, now_ms=now_ms)
        return True


def go_on_with_health(
    store: Store, alert: HealthAlert, finding: HealthFinding | None, *, messages: Mapping[str, str], now_ms: int
) -> bool:
    """Notes what is found now, or with None that nothing is any more, and tells it (destination -> payload).

    False if it is not as it was read.
    """
    table, state = schema.health_alert, alert.state if finding is not None else AlertState.RESOLVED
    number = alert.messages + bool(messages)
    values: dict[str, Any] = {"messages": number, "state": state.value, "version": alert.version + 1}
    values |= {"resolved_ms": now_ms} if finding is None else {"finding": finding.as_json()}
    with store.write(alert.project, of_project=True) as connection:
        owner = project_id(connection, alert.project)
        done = connection.execute(
            update(table)
            .where(table.c.id == alert.id, table.c.version == alert.version, table.c.resolved_ms.is_(None))
            .values(**values)
        )
        if owner is None or not done.rowcount:
            return False
        add_event(
            connection,
            alert.id,
            state,
            now_ms=now_ms,
            author=None,
            note=finding.says if finding is not None else None,
            kind=EventKind.STATE if finding is None else EventKind.UPDATED,
            table=schema.health_event,
        )
        queue_messages(connection, owner, alert.thread, number, messages, now_ms=now_ms)
        return True


def open_subjects(alerts: Sequence[HealthAlert]) -> dict[tuple[HealthKind, str], HealthAlert]:
    """The open ones by kind and subject."""
    return {(each.finding.kind, each.finding.subject): each for each in alerts if each.resolved is None}

"""Steps in an alert's life, of either kind: of a regression (table `alert_event`) and of the data (`health_event`)."""

from collections.abc import Sequence
from datetime import UTC, datetime

from sqlalchemy import Connection, Table, insert, select

from warpwatch.dashboard.store import tables
from warpwatch.dashboard.store.alert_records import AlertEvent, AlertState, EventKind
from warpwatch.dashboard.store.choosing import is_among


def add_event(
    connection: Connection, alert: int, state: AlertState, *, now_ms: int, author: str | None,
    note: str | None = None, kind: EventKind = EventKind.STATE, detail: str | None = None,
    table: Table = tables.alert_event,
) -> None:  # fmt: skip
    """Adds a step to an alert's history."""
    values = {"alert_id": alert, "at_ms": now_ms, "state": state.value, "author": author, "note": note,
              "kind": kind.value, "detail": detail}  # fmt: skip
    connection.execute(insert(table).values(**values))


def events_of(
    connection: Connection, alerts: Sequence[int], table: Table = tables.alert_event
) -> dict[int, list[AlertEvent]]:  # fmt: skip
    """The steps of each of the alerts, the first first."""
    found: dict[int, list[AlertEvent]] = {}
    its_own = is_among(connection, table.c.alert_id, alerts)
    for row in connection.execute(select(table).where(its_own).order_by(table.c.id)):
        found.setdefault(row.alert_id, []).append(
            AlertEvent(
                at=datetime.fromtimestamp(row.at_ms / 1000, UTC), state=AlertState(row.state), author=row.author,
                note=row.note, kind=EventKind(row.kind), detail=row.detail,
            )
        )  # fmt: skip
    return found

"""Messages that alerts want delivered: written with the alert, claimed by a sender, marked when they arrived.

Exactly once, as far as a network allows: a regression belongs to one alert (unique key), an alert sends one message of
a kind to a destination (unique key), the message is written in the alert's own transaction, and a sender claims it
before it sends. A sender that dies between sending and `mark_delivered` leaves a claim that runs out; then the message
goes out again. Its `id` never changes, so a receiver can tell.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, or_, select, update

from warpwatch.dashboard.store import tables
from warpwatch.dashboard.store.rows import insert_new
from warpwatch.dashboard.store.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """A message to one destination. `attempts` counts this claim."""

    id: int
    alert_id: int
    destination: str
    kind: str
    payload: str
    attempts: int


def queue_messages(connection: Connection, alert_id: int, kind: str, messages: Mapping[str, str]) -> None:
    """Puts messages (destination -> payload) into the outbox, those of this kind that are not there yet."""
    rows = [{"alert_id": alert_id, "destination": destination, "kind": kind, "payload": payload}
            for destination, payload in messages.items()]  # fmt: skip
    insert_new(connection, tables.outbox, rows)


def claim_deliveries(
    store: Store, *, destinations: Collection[str], worker: str, now_ms: int, lease_ms: int = 120_000, limit: int = 100
) -> tuple[Delivery, ...]:
    """Claims messages to these destinations that are not delivered yet nor claimed by another within the lease, oldest
    first. A destination that nobody names any more (a retired webhook) keeps its messages and is no failure.
    """
    table = tables.outbox
    with store.write("outbox") as connection:
        rows = connection.execute(
            select(table)
            .where(
                table.c.delivered_ms.is_(None),
                table.c.destination.in_(destinations),
                or_(table.c.claimed_ms.is_(None), table.c.claimed_ms <= now_ms - lease_ms),
            )
            .order_by(table.c.id)
            .limit(limit)
        ).all()
        ids = [row.id for row in rows]
        connection.execute(
            update(table)
            .where(table.c.id.in_(ids))
            .values(claimed_ms=now_ms, claimed_by=worker, attempts=table.c.attempts + 1)
        )
    return tuple(
        Delivery(id=row.id, alert_id=row.alert_id, destination=row.destination, kind=row.kind, payload=row.payload,
                 attempts=row.attempts + 1)
        for row in rows
    )  # fmt: skip


def mark_delivered(store: Store, delivery_id: int, *, worker: str, now_ms: int) -> bool:
    """Records that a message arrived; False if the claim was no longer this worker's."""
    table = tables.outbox
    with store.write("outbox") as connection:
        done = connection.execute(
            update(table)
            .where(table.c.id == delivery_id, table.c.claimed_by == worker, table.c.delivered_ms.is_(None))
            .values(delivered_ms=now_ms, error=None)
        )
        return bool(done.rowcount)


def mark_failed(store: Store, delivery_id: int, *, worker: str, error: str) -> None:
    """Records why a message did not arrive, and lets it be claimed again at once."""
    table = tables.outbox
    with store.write("outbox") as connection:
        connection.execute(
            update(table)
            .where(table.c.id == delivery_id, table.c.claimed_by == worker, table.c.delivered_ms.is_(None))
            .values(claimed_ms=None, claimed_by=None, error=error[:2000])
        )

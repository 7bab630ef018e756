"""Outbox of messages: written in the transaction that changes the alert, claimed by a sender, marked when delivered.

Delivery is exactly once as far as a network allows. Thread (of an alert or digest), destination and number are a unique
key. A sender claims one message before sending. The claim of a sender that dies before `mark_delivered` expires, at
once if the sender is known to be gone; then the message is sent again with the same thread and number, by which a
receiver can recognise it. Messages of a thread are sent to a destination in the order of their numbers.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, func, or_, select, update

from . import schema
from .engine import Store
from .mappers import moment, project_id
from .statements import insert_new, is_one_of

LEASE_MS = 120_000  # validity of a claim, longer than any delivery
_AT_ONCE = 20  # candidates read at once


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """A claimed message to one destination. `attempts` counts this claim."""

    id: int
    thread: str
    number: int
    destination: str
    payload: str
    attempts: int
    queued_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Undelivered:
    """A message that has not arrived."""

    destination: str
    payload: str
    attempts: int
    next_attempt: datetime | None  # None: at once
    given_up: datetime | None
    error: str | None


def queue_messages(
    connection: Connection, project: int, thread: str, number: int, messages: Mapping[str, str], *, now_ms: int
) -> None:
    """Add messages (destination -> payload) with this number, unless they exist."""
    rows = [
        {
            "project_id": project,
            "thread": thread,
            "number": number,
            "destination": destination,
            "payload": payload,
            "queued_ms": now_ms,
        }
        for destination, payload in messages.items()
    ]
    insert_new(connection, schema.outbox, rows)


def queue_in_project(
    store: Store, project: str, thread: str, number: int, messages: Mapping[str, str], *, now_ms: int
) -> None:
    """Add messages without an alert, in their own transaction."""
    with store.write("outbox") as connection:
        owner = project_id(connection, project)
        if owner:
            queue_messages(connection, owner, thread, number, messages, now_ms=now_ms)


def notified_destinations(store: Store, threads: Collection[str]) -> dict[str, frozenset[str]]:
    """Destinations of each thread's messages, which get its updates."""
    table = schema.outbox
    destinations: dict[str, set[str]] = {}
    with store.read() as connection:
        for row in connection.execute(
            select(table.c.thread, table.c.destination).where(is_one_of(connection, table.c.thread, threads)).distinct()
        ):
            destinations.setdefault(row.thread, set()).add(row.destination)
    return {thread: frozenset(names) for thread, names in destinations.items()}


def claim_next(
    store: Store,
    *,
    destinations: Collection[str],
    worker: str,
    now_ms: int,
    only_due: bool = True,
    after: int = 0,
    project: str | None = None,
    is_gone: Callable[[str], bool] = lambda worker: False,
) -> Delivery | None:
    """Claim the oldest unclaimed message to one of the destinations; None without any.

    `only_due`: skip failed messages until their next attempt. `after`: id of the message claimed before in the same
    round. `project`: only its messages; None: of all projects. Claims of senders that `is_gone` are ignored. Messages
    to destinations that are no longer configured stay in the outbox.
    """
    table, earlier = schema.outbox, schema.outbox.alias()
    overtaken = (
        select(earlier.c.id)
        .where(
            earlier.c.thread == table.c.thread,
            earlier.c.destination == table.c.destination,
            earlier.c.number < table.c.number,
            earlier.c.delivered_ms.is_(None),
            earlier.c.given_up_ms.is_(None),
        )
        .exists()
    )
    where = [
        table.c.delivered_ms.is_(None),
        table.c.given_up_ms.is_(None),
        table.c.destination.in_(destinations),
        ~overtaken,
    ]
    if only_due:
        where.append(or_(table.c.attempts == 0, table.c.next_attempt_ms <= now_ms, table.c.claimed_by.is_not(None)))
    with store.write("outbox") as connection:
        if project is not None:
            where.append(table.c.project_id == project_id(connection, project))
        claim = select(table.c.id, table.c.claimed_by, table.c.claimed_ms).where(*where).order_by(table.c.id)
        free = None
        while free is None:
            rows = connection.execute(claim.where(table.c.id > after).limit(_AT_ONCE)).all()
            if not rows:
                return None
            free = next((row.id for row in rows if _is_free(row, now_ms, is_gone)), None)
            after = rows[-1].id
        row = connection.execute(
            update(table)
            .where(table.c.id == free)
            .values(claimed_ms=now_ms, claimed_by=worker, attempts=table.c.attempts + 1)
            .returning(table)
        ).one()
    return Delivery(
        id=row.id,
        thread=row.thread,
        number=row.number,
        destination=row.destination,
        payload=row.payload,
        attempts=row.attempts,
        queued_ms=row.queued_ms,
    )


def _is_free(row: Any, now_ms: int, is_gone: Callable[[str], bool]) -> bool:
    return row.claimed_by is None or row.claimed_ms <= now_ms - LEASE_MS or is_gone(row.claimed_by)


def mark_delivered(
    store: Store, delivery_id: int, *, worker: str, now_ms: int, receipt: str | None = None, remark: str | None = None
) -> bool:
    """Record a delivery with the receiver's name of it and a remark; False if the worker has lost the claim."""
    return _settle(store, delivery_id, worker, delivered_ms=now_ms, receipt=receipt, error=remark and remark[:2000])


def mark_failed(
    store: Store,
    delivery_id: int,
    *,
    worker: str,
    error: str,
    next_attempt_ms: int,
    given_up_ms: int | None = None,
    not_before_ms: int = 0,
) -> bool:
    """Record a failure with the time of the next attempt, or of giving up; False if the worker has lost the claim.

    `not_before_ms`: from the destination's Retry-After.
    """
    return _settle(
        store,
        delivery_id,
        worker,
        claimed_ms=None,
        claimed_by=None,
        error=error[:2000],
        next_attempt_ms=next_attempt_ms,
        given_up_ms=given_up_ms,
        not_before_ms=not_before_ms,
    )


def _settle(store: Store, delivery_id: int, worker: str, **values: Any) -> bool:
    table = schema.outbox
    with store.write("outbox") as connection:
        done = connection.execute(
            update(table)
            .where(table.c.id == delivery_id, table.c.claimed_by == worker, table.c.delivered_ms.is_(None))
            .values(**values)
        )
        return bool(done.rowcount)


def newest_receipt(store: Store, thread: str, destination: str) -> str | None:
    table = schema.outbox
    with store.read() as connection:
        return connection.execute(
            select(table.c.receipt)
            .where(table.c.thread == thread, table.c.destination == destination, table.c.receipt.is_not(None))
            .order_by(table.c.number.desc())
            .limit(1)
        ).scalar()


def undelivered(store: Store, project: str) -> tuple[Undelivered, ...]:
    """Messages of a project that wait or were given up, oldest first."""
    table = schema.outbox
    with store.read() as connection:
        rows: Sequence[Row[Any]] = connection.execute(
            select(table)
            .where(table.c.project_id == project_id(connection, project), table.c.delivered_ms.is_(None))
            .order_by(table.c.id)
        ).all()
    return tuple(
        Undelivered(
            destination=row.destination,
            payload=row.payload,
            attempts=row.attempts,
            next_attempt=moment(row.next_attempt_ms or None),
            given_up=moment(row.given_up_ms),
            error=row.error,
        )
        for row in rows
    )


def paused_destinations(store: Store, *, now_ms: int, project: str | None = None) -> dict[str, datetime]:
    """Destinations with a Retry-After, and until when."""
    table = schema.outbox
    where = [table.c.delivered_ms.is_(None), table.c.given_up_ms.is_(None), table.c.not_before_ms > now_ms]
    with store.read() as connection:
        if project is not None:
            where.append(table.c.project_id == project_id(connection, project))
        rows = connection.execute(
            select(table.c.destination, func.max(table.c.not_before_ms).label("until"))
            .where(*where)
            .group_by(table.c.destination)
        ).all()
    return {row.destination: moment(row.until) for row in rows}


def unconfigured_destinations(store: Store, project: str, configured: Collection[str]) -> dict[str, int]:
    """Destinations of waiting messages that are no longer configured, with the number of messages."""
    table = schema.outbox
    with store.read() as connection:
        rows = connection.execute(
            select(table.c.destination, func.count().label("messages"))
            .where(
                table.c.project_id == project_id(connection, project),
                table.c.destination.not_in(configured),
                table.c.delivered_ms.is_(None),
                table.c.given_up_ms.is_(None),
            )
            .group_by(table.c.destination)
            .order_by(table.c.destination)
        ).all()
    return {row.destination: row.messages for row in rows}


def revive(store: Store, project: str, *, now_ms: int) -> int:
    """Queue given-up messages again, as if new; return their number."""
    table = schema.outbox
    with store.write("outbox") as connection:
        done = connection.execute(
            update(table)
            .where(table.c.project_id == project_id(connection, project), table.c.given_up_ms.is_not(None))
            .values(given_up_ms=None, queued_ms=now_ms, next_attempt_ms=now_ms, attempts=0)
        )
        return int(done.rowcount)

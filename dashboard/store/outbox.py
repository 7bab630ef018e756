"""Messages that wait for their delivery: written with what they tell of, claimed by a sender, marked when they arrived.

Exactly once, as far as a network allows. A message has a number in its thread (one alert's, or a digest's), and thread,
destination and number are a unique key; it is written in the transaction that changes the alert; a sender claims it
before it sends, one at a time. A sender that dies between sending and `mark_delivered` leaves a claim that runs out, at
once where it is known to be gone; then the message goes out again, with the same thread and number, so that a receiver
can tell. To one destination the messages of a thread go out in the order of their numbers: none overtakes an earlier
one that still waits.
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

LEASE_MS = 120_000  # that a claim lasts: longer than any delivery
_AT_ONCE = 20  # messages that are looked at for one that nobody is about to deliver


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
    queued: datetime
    attempts: int
    next_attempt: datetime | None  # None: at once
    given_up: datetime | None
    error: str | None


def queue_messages(
    connection: Connection, project: int, thread: str, number: int, messages: Mapping[str, str], *, now_ms: int
) -> None:
    """Puts messages (destination -> payload) into the outbox, those of this number that are not there yet."""
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
    """Puts messages that belong to no alert into the outbox, in a transaction of their own."""
    with store.write("outbox") as connection:
        owner = project_id(connection, project)
        if owner is not None:
            queue_messages(connection, owner, thread, number, messages, now_ms=now_ms)


def notified_destinations(store: Store, threads: Collection[str]) -> dict[str, frozenset[str]]:
    """Destinations of each thread's messages: they get its updates."""
    table = schema.outbox
    found: dict[str, set[str]] = {}
    with store.read() as connection:
        for row in connection.execute(
            select(table.c.thread, table.c.destination).where(is_one_of(connection, table.c.thread, threads)).distinct()
        ):
            found.setdefault(row.thread, set()).add(row.destination)
    return {thread: frozenset(names) for thread, names in found.items()}


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
    lease_ms: int = LEASE_MS,
) -> Delivery | None:
    """Claims the oldest message to one of these destinations that nobody else is about to deliver; None without any.

    `only_due`: of messages that failed before, those whose next attempt has come. `after` is the id of the message that
    was claimed before this one in the same round: those up to it had their turn. `project` is whose destinations they
    are; None: every project's. A claim of a sender that `is_gone` does not count. A destination that nobody names any
    more keeps its messages, and is no failure.
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
            free = next((row.id for row in rows if _is_free(row, now_ms, lease_ms, is_gone)), None)
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


def _is_free(row: Any, now_ms: int, lease_ms: int, is_gone: Callable[[str], bool]) -> bool:
    return row.claimed_by is None or row.claimed_ms <= now_ms - lease_ms or is_gone(row.claimed_by)


def mark_delivered(
    store: Store, delivery_id: int, *, worker: str, now_ms: int, receipt: str | None = None, remark: str | None = None
) -> bool:
    """Records that a message arrived, what the receiver calls it, and what there is to say of it; False if the claim
    was no longer this worker's."""
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
    """Records why a message did not arrive, when it is tried again, or that it is not; False as above.

    `not_before_ms` is until when the destination asked to be left alone.
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
    """What the destination called the newest message of the thread that it took, if it said."""
    table = schema.outbox
    with store.read() as connection:
        return connection.execute(
            select(table.c.receipt)
            .where(table.c.thread == thread, table.c.destination == destination, table.c.receipt.is_not(None))
            .order_by(table.c.number.desc())
            .limit(1)
        ).scalar()


def undelivered(store: Store, project: str) -> tuple[Undelivered, ...]:
    """Every message of a project that waits or was given up, the oldest first."""
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
            queued=_moment(row.queued_ms),
            attempts=row.attempts,
            next_attempt=moment(row.next_attempt_ms or None),
            given_up=moment(row.given_up_ms),
            error=row.error,
        )
        for row in rows
    )


def destinations_that_wait(store: Store, *, now_ms: int, project: str | None = None) -> dict[str, datetime]:
    """Destinations that asked to be left alone, and until when."""
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
    return {row.destination: _moment(row.until) for row in rows}


def unnamed_destinations(store: Store, project: str, named: Collection[str]) -> dict[str, int]:
    """Destinations that messages of a project wait for and nobody names any more, with how many wait for each."""
    table = schema.outbox
    with store.read() as connection:
        rows = connection.execute(
            select(table.c.destination, func.count().label("messages"))
            .where(
                table.c.project_id == project_id(connection, project),
                table.c.destination.not_in(named),
                table.c.delivered_ms.is_(None),
                table.c.given_up_ms.is_(None),
            )
            .group_by(table.c.destination)
            .order_by(table.c.destination)
        ).all()
    return {row.destination: row.messages for row in rows}


def _moment(milliseconds: int) -> datetime:
    found = moment(milliseconds)
    assert found is not None
    return found


def revive(store: Store, project: str, *, now_ms: int) -> int:
    """Lets messages that were given up be tried again, for as long as new ones are; returns how many."""
    table = schema.outbox
    with store.write("outbox") as connection:
        done = connection.execute(
            update(table)
            .where(table.c.project_id == project_id(connection, project), table.c.given_up_ms.is_not(None))
            .values(given_up_ms=None, queued_ms=now_ms, next_attempt_ms=now_ms, attempts=0)
        )
        return int(done.rowcount)

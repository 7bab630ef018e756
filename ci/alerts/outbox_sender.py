"""Empties the outbox: each message that is due goes to its destination, and what became of it is noted.

A destination that fails three times is left alone until the next round, one that asks for it (Retry-After) for so
long. A message that waited for longer than it may is given up: that is said each time, until somebody revives it.
"""

import logging
import os
import socket
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy.exc import InterfaceError, OperationalError

from warpwatch.dashboard.model.error_location import line_of
from warpwatch.dashboard.store import Store
from warpwatch.dashboard.store.outbox import (
    LEASE_MS,
    Delivery,
    claim_next,
    destinations_that_wait,
    mark_delivered,
    mark_failed,
    newest_receipt,
)

from ..retries import Backoff, retry
from .channels.delivery import Delivered
from .destinations import Places
from .message import DeliveryError, Message

# Which process a sender is, so that others can tell whether it still is.
#
# A claim of a process that is known to be gone need not run out: it is known where host, process namespace and number
# are ours to look up. Of a process elsewhere nothing is known, and its claim runs out.


def this_worker() -> str:
    """host|namespace|number|start: a number is given to another process some day, a start is not."""
    number = os.getpid()
    return f"{socket.gethostname()}|{_namespace()}|{number}|{_start(number)}"


def is_gone(worker: str) -> bool:
    """Whether it surely is."""
    parts = worker.split("|")
    if len(parts) != 4 or parts[:2] != [socket.gethostname(), _namespace()] or not parts[3]:
        return False
    return _start(int(parts[2])) != parts[3]


def _namespace() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{os.readlink('/proc/self/ns/pid')}"  # noqa: PTH115  (no path: "pid:[4026531836]")
    except OSError:
        return ""


def _start(number: int) -> str:
    """Clock ticks from boot to the process's start; empty where there is no such process, or no /proc."""
    try:
        fields = Path(f"/proc/{number}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else fields[19]


_log = logging.getLogger(__name__)
_MOST_FAILURES = 3
_AWAY = (OperationalError, InterfaceError)  # the database
_PATIENCE_S = LEASE_MS / 1000 * 0.75  # for a database that went away after a message had arrived
_DAY_MS = 24 * 3600 * 1000
_BACKOFF = Backoff(first_s=30.0, longest_s=3600.0, longest_asked_s=24 * 3600.0)  # of a message, kept in the outbox
_DATABASE_BACKOFF = Backoff(first_s=1.0, longest_s=1.0)


@dataclass(slots=True)
class Sent:
    """What became of the messages of a round."""

    sent: int = 0
    failed: int = 0
    given_up: int = 0
    said: list[str] = field(default_factory=list)  # of each that failed, and each remark


def empty_outbox(
    store: Store,
    places: Places,
    *,
    give_up_days: float,
    only_due: bool,
    now_ms: Callable[[], int],
    is_stopped: Callable[[], bool] = lambda: False,
    project: str | None = None,
) -> Sent:
    """Delivers what waits for these places: this round's, and what earlier ones could not. Of one project, whose places
    they are, or of every one."""
    worker, done = this_worker(), Sent()
    last = 0
    waiting = destinations_that_wait(store, now_ms=now_ms(), project=project)
    if not only_due:
        for name in waiting.keys() & {*places.names}:
            done.failed += 1
            done.said.append(f"{name}: not tried, for it asked to be left alone until {waiting[name]:%H:%M:%S} UTC")
    failures: Counter[str] = Counter()
    while not is_stopped():
        open_places = [name for name in places.names if failures[name] < _MOST_FAILURES and name not in waiting]
        delivery = claim_next(
            store,
            destinations=open_places,
            worker=worker,
            now_ms=now_ms(),
            only_due=only_due,
            after=last,
            project=project,
            is_gone=lambda other: other == worker or is_gone(other),  # our own is of a round that the database ended
        )
        if delivery is None:
            break
        last = delivery.id
        try:
            delivered = _deliver(store, places, delivery)
        except DeliveryError as error:
            failures[delivery.destination] += 1 if error.wait_s is None else _MOST_FAILURES
            _note_failure(store, delivery, worker, error, done, give_up_days, now_ms())
        else:
            _note_delivery(store, delivery, worker, delivered, now_ms)
            done.sent += 1
            if delivered.remark:
                done.said.append(delivered.remark)
    return done


def _deliver(store: Store, places: Places, delivery: Delivery) -> Delivered:
    try:
        return places.deliver(
            Message.from_json(delivery.payload),
            delivery.destination,
            lambda: newest_receipt(store, delivery.thread, delivery.destination),
        )
    except (DeliveryError, *_AWAY):
        raise
    except Exception as error:  # a fault of ours, or of a library: the other messages shall go out
        # Without its own words, which may hold the address.
        raise DeliveryError(
            f"{delivery.destination}: {type(error).__name__}, {line_of(error)}. Please report this"
        ) from error


def _note_failure(
    store: Store,
    delivery: Delivery,
    worker: str,
    error: DeliveryError,
    done: Sent,
    give_up_days: float,
    now_ms: int,
) -> None:
    is_late = now_ms - delivery.queued_ms > give_up_days * _DAY_MS
    asked_s = min(error.wait_s or 0.0, _BACKOFF.longest_asked_s)
    mark_failed(
        store,
        delivery.id,
        worker=worker,
        error=str(error),
        not_before_ms=now_ms + round(asked_s * 1000),
        next_attempt_ms=now_ms + round(_BACKOFF.pause_s(delivery.attempts, error) * 1000),
        given_up_ms=now_ms if is_late else None,
    )
    done.failed += 1
    done.given_up += is_late
    done.said.append(
        f"given up after {delivery.attempts} attempts: {error}"
        if is_late
        else f"not delivered, attempt {delivery.attempts}: {error}"
    )


def _note_delivery(
    store: Store, delivery: Delivery, worker: str, delivered: Delivered, now_ms: Callable[[], int]
) -> None:
    """Tries until the database is back or the claim is about to expire: a delivered message must not be sent again."""

    def mark() -> None:
        mark_delivered(
            store, delivery.id, worker=worker, now_ms=now_ms(), receipt=delivered.receipt, remark=delivered.remark
        )

    def say(line: str) -> None:
        _log.warning("a message was delivered, and the database is away: %s", line)

    retry(mark, _DATABASE_BACKOFF, on=_AWAY, total_s=_PATIENCE_S, say=say)

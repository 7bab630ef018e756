"""Empties the outbox: each message that is due goes to its destination, and what became of it is noted.

A destination that fails three times is left alone until the next round. A message that waited for longer than it may
is given up: that is said each time, until somebody revives it.
"""

import logging
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from sqlalchemy.exc import InterfaceError, OperationalError

from warpwatch.ci.alerting.delivering import Delivered
from warpwatch.ci.alerting.failing import DeliveryError, pause_ms
from warpwatch.ci.alerting.message import Message
from warpwatch.ci.alerting.places import Places
from warpwatch.ci.alerting.worker import is_gone, this_worker
from warpwatch.dashboard.faults import located
from warpwatch.dashboard.store import Store
from warpwatch.dashboard.store.outbox import (
    LEASE_MS,
    Delivery,
    claim_next,
    mark_delivered,
    mark_failed,
    newest_receipt,
)

_log = logging.getLogger(__name__)
_MOST_FAILURES = 3
_AWAY = (OperationalError, InterfaceError)  # the database
_PATIENCE_S = LEASE_MS / 1000 * 0.75  # for a database that went away after a message had arrived
_DAY_MS = 24 * 3600 * 1000


@dataclass(slots=True)
class Sent:
    """What became of the messages of a round."""

    sent: int = 0
    failed: int = 0
    given_up: int = 0
    said: list[str] = field(default_factory=list)  # of each that failed, and each remark


def empty_outbox(
    store: Store, places: Places, *, give_up_days: float, only_due: bool, now_ms: Callable[[], int],
    is_stopped: Callable[[], bool] = lambda: False,
) -> Sent:  # fmt: skip
    """Delivers what waits for these places: this round's, and what earlier ones could not."""
    worker, done = this_worker(), Sent()
    tried: set[int] = set()
    failures: Counter[str] = Counter()
    chance = random.Random()
    while not is_stopped():
        open_places = [name for name in places.names if failures[name] < _MOST_FAILURES]
        delivery = claim_next(
            store, destinations=open_places, worker=worker, now_ms=now_ms(), only_due=only_due, but=tried,
            is_gone=lambda other: other == worker or is_gone(other),  # our own is of a round that the database ended
        )  # fmt: skip
        if delivery is None:
            break
        tried.add(delivery.id)
        try:
            delivered = _deliver(store, places, delivery)
        except DeliveryError as error:
            failures[delivery.destination] += _MOST_FAILURES if error.wait_s else 1
            _note_failure(store, delivery, worker, error, done, give_up_days, now_ms(), chance)
        else:
            _note_delivery(store, delivery, worker, delivered, now_ms)
            done.sent += 1
            if delivered.remark:
                done.said.append(delivered.remark)
    return done


def _deliver(store: Store, places: Places, delivery: Delivery) -> Delivered:
    try:
        return places.deliver(
            Message.from_json(delivery.payload), delivery.destination,
            lambda: newest_receipt(store, delivery.thread, delivery.destination),
        )  # fmt: skip
    except (DeliveryError, *_AWAY):
        raise
    except Exception as error:  # a fault of ours, or of a library: the other messages shall go out
        scheme = delivery.destination.partition("://")[0]
        raise DeliveryError(f"{scheme}: {located(error)}. Please report this") from error


def _note_failure(
    store: Store, delivery: Delivery, worker: str, error: DeliveryError, done: Sent, give_up_days: float, now_ms: int,
    chance: random.Random,
) -> None:  # fmt: skip
    pause = pause_ms(delivery.attempts, chance, error.wait_s)
    is_late = now_ms - delivery.queued_ms > give_up_days * _DAY_MS
    mark_failed(
        store, delivery.id, worker=worker, error=str(error),
        next_attempt_ms=now_ms + pause, given_up_ms=now_ms if is_late else None,
    )  # fmt: skip
    done.failed += 1
    done.given_up += is_late
    done.said.append(
        f"given up after {delivery.attempts} attempts: {error}" if is_late
        else f"not delivered, attempt {delivery.attempts}: {error}"
    )  # fmt: skip


def _note_delivery(
    store: Store, delivery: Delivery, worker: str, delivered: Delivered, now_ms: Callable[[], int]
) -> None:  # fmt: skip
    """Until the database has it, or the claim is about to run out: a message that has arrived shall not go again."""
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            mark_delivered(
                store, delivery.id, worker=worker, now_ms=now_ms(), receipt=delivered.receipt, remark=delivered.remark
            )
            return
        except _AWAY as error:
            if time.monotonic() > deadline:
                raise
            _log.warning("the database is away (%s); a message arrived, and is noted when it is back", error.orig)
            time.sleep(1.0)

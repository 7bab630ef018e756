"""Destinations of alerts, and delivery of the outbox, which records the result of each message.

A destination that fails three times is skipped until the next round, one with Retry-After for that long. A message that
waited too long is abandoned.
"""

import logging
import os
import re
import socket
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from urllib.parse import urlsplit

from sqlalchemy.exc import InterfaceError, OperationalError

from warpwatch.dashboard.model.error_location import line_of
from warpwatch.dashboard.store import Store
from warpwatch.dashboard.store.outbox import (
    LEASE_MS,
    Delivery,
    claim_next,
    mark_delivered,
    mark_failed,
    newest_receipt,
    paused_destinations,
)

from ..policy.policy_model import AlertsTable, Destination, Route
from ..retries import Backoff, retry
from .alert_content import DeliveryError, Message
from .channels import Delivered, check_address, deliver, deliver_to_github

# Addresses and tokens are read from the environment when a message is sent. The store knows a destination by a name
# without secrets, which stays the same when a token is rotated, so that threads continue.

_MAIL = re.compile(
    r"(?P<scheme>mailtos?://)((?P<user>[^:/@?#]*)(:[^/@?#]*)?@)?(?P<host>[^:/@?#]+(:\d+)?)(?P<to>/[^?#]*)?"
    r"(\?(?P<settings>[^#]*))?"
)

_ADDRESSES = ("from", "to", "cc", "bcc")  # settings of mail; others may be secrets


def address_names(addresses: Sequence[str]) -> dict[str, str]:
    """Addresses by their names without secrets; equal names are numbered in the order of the command line."""
    named: dict[str, str] = {}
    for address in dict.fromkeys(addresses):
        name = first = _without_secrets(address)
        number = 1
        while name in named:
            number += 1
            name = f"{first} ({number})"
        named[name] = address
    return named


def _without_secrets(address: str) -> str:
    """The host of a webhook, the addresses of a mail, else the scheme: any other part may be a token."""
    scheme = address.partition("://")[0] + "://"
    if scheme in {"http://", "https://"}:
        parts = urlsplit(address)
        host = parts.netloc.rpartition("@")[2]
        is_open = parts.netloc == host and parts.path in {"", "/"} and not parts.query and not parts.fragment
        return address if is_open else scheme + host
    mail = _MAIL.fullmatch(address)
    if mail is None:
        return scheme
    user = f"{mail['user']}@" if mail["user"] else ""
    open_settings = "&".join(
        each for each in (mail["settings"] or "").split("&") if each.partition("=")[0] in _ADDRESSES
    )
    return f"{scheme}{user}{mail['host']}{mail['to'] or ''}" + (f"?{open_settings}" if open_settings else "")


class Destinations:
    """Destinations of the policy file and the command line. Raises DeliveryError for an invalid one."""

    def __init__(self, policy: AlertsTable, given: Sequence[str], environment: Mapping[str, str]) -> None:
        for address in given:
            check_address(address)
        self.given = tuple(given)
        self._given = address_names(given)
        self._named = {each.name: each for each in policy.destination}
        self._environment = environment
        for each in policy.destination:
            if each.url_env is not None:
                check_address(self._secret(each.url_env, each.name))
            else:
                self._secret(each.token_env, each.name)

    @property
    def names(self) -> tuple[str, ...]:
        return (*self._given, *self._named)

    def deliver(self, message: Message, destination: str, receipt: Callable[[], str | None]) -> Delivered:
        """Send once. Raises DeliveryError."""
        named = self._named.get(destination)
        if named is None:
            return deliver(message, self._given[destination])
        if named.url_env is not None:
            return deliver(message, self._secret(named.url_env, named.name))
        return self._as_issue(message, named, receipt)

    def _as_issue(self, message: Message, issues: Destination, receipt: Callable[[], str | None]) -> Delivered:
        return deliver_to_github(message, issues, self._secret(issues.token_env, issues.name), receipt)

    def _secret(self, variable: str, name: str) -> str:
        value = self._environment.get(variable)
        if not value:
            raise DeliveryError(f"destination {name!r}: the environment has no {variable}; set it, or take it out")
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutingFacts:
    """The facts of an alert that routes match."""

    kind: str  # policy_model.KINDS
    machine: str | None  # None: of the whole project
    kernels: Collection[str]
    owners: Collection[str]


def destinations(matter: RoutingFacts, policy: AlertsTable, given: Sequence[str]) -> tuple[str, ...]:
    """Names of the destinations of all matching routes, else of the default ones; `given` addresses get every alert."""
    matching = [name for route in policy.route if _matches(route, matter) for name in route.to]
    return tuple(dict.fromkeys((*address_names(given), *(matching or policy.to))))


def _matches(route: Route, matter: RoutingFacts) -> bool:
    return (
        (not route.kind or matter.kind in route.kind)
        and _any(route.machine, (matter.machine,) if matter.machine is not None else ())
        and _any(route.kernel, matter.kernels)
        and _any(route.owner, matter.owners)
    )


def _any(globs: tuple[str, ...], values: Collection[str]) -> bool:
    """Whether a value matches a glob, or there are no globs."""
    return not globs or any(fnmatchcase(value, glob) for value in values for glob in globs)


# A claim names its process, so that the claim of a dead process on this host is taken over at once. Claims of other
# hosts expire.


def this_worker() -> str:
    """host|namespace|pid|start time: pids are reused, pairs with a start time are not."""
    number = os.getpid()
    return f"{socket.gethostname()}|{_namespace()}|{number}|{_start(number)}"


def is_gone(worker: str) -> bool:
    """Whether the process is known to have ended."""
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
    """Start time of a process in clock ticks since boot; empty if it does not run, or without /proc."""
    try:
        fields = Path(f"/proc/{number}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else fields[19]


_log = logging.getLogger(__name__)

_MOST_FAILURES = 3

_DATABASE_ERRORS = (OperationalError, InterfaceError)  # the database

_PATIENCE_S = LEASE_MS / 1000 * 0.75  # for a database that is unavailable after a delivery

_DAY_MS = 24 * 3600 * 1000

_BACKOFF = Backoff(first_s=30.0, longest_s=3600.0, longest_requested_s=24 * 3600.0)  # of a message, kept in the outbox

_DATABASE_BACKOFF = Backoff(first_s=1.0, longest_s=1.0)


@dataclass(slots=True)
class DeliveryReport:
    """Counts and log lines of a round."""

    sent: int = 0
    failed: int = 0
    given_up: int = 0
    lines: list[str] = field(default_factory=list)  # one for each failure and remark


def deliver_outbox(
    store: Store,
    destinations: Destinations,
    *,
    give_up_days: float,
    only_due: bool,
    now_ms: Callable[[], int],
    is_stopped: Callable[[], bool] = lambda: False,
    project: str | None = None,
) -> DeliveryReport:
    """Delivers the queued messages for these destinations, of one project or of all."""
    worker, done = this_worker(), DeliveryReport()
    last = 0
    waiting = paused_destinations(store, now_ms=now_ms(), project=project)
    if not only_due:
        for name in waiting.keys() & {*destinations.names}:
            done.failed += 1
            done.lines.append(f"{name}: not tried: it asked for a pause until {waiting[name]:%H:%M:%S} UTC")
    failures: Counter[str] = Counter()
    while not is_stopped():
        open_destinations = [
            name for name in destinations.names if failures[name] < _MOST_FAILURES and name not in waiting
        ]
        delivery = claim_next(
            store,
            destinations=open_destinations,
            worker=worker,
            now_ms=now_ms(),
            only_due=only_due,
            after=last,
            project=project,
            is_gone=lambda other: other == worker or is_gone(other),  # our own claim is left from a round that failed
        )
        if delivery is None:
            break
        last = delivery.id
        try:
            delivered = _deliver(store, destinations, delivery)
        except DeliveryError as error:
            failures[delivery.destination] += 1 if error.wait_s is None else _MOST_FAILURES
            _record_failure(store, delivery, worker, error, done, give_up_days, now_ms())
        else:
            _record_delivery(store, delivery, worker, delivered, now_ms)
            done.sent += 1
            if delivered.remark:
                done.lines.append(delivered.remark)
    return done


def _deliver(store: Store, destinations: Destinations, delivery: Delivery) -> Delivered:
    try:
        return destinations.deliver(
            Message.from_json(delivery.payload),
            delivery.destination,
            lambda: newest_receipt(store, delivery.thread, delivery.destination),
        )
    except (DeliveryError, *_DATABASE_ERRORS):
        raise
    except Exception as error:  # a bug here or in a library must not stop the other messages
        # Without the error's text, which may contain the address.
        raise DeliveryError(
            f"{delivery.destination}: {type(error).__name__}, {line_of(error)}. Please report this"
        ) from error


def _record_failure(
    store: Store,
    delivery: Delivery,
    worker: str,
    error: DeliveryError,
    done: DeliveryReport,
    give_up_days: float,
    now_ms: int,
) -> None:
    is_late = now_ms - delivery.queued_ms > give_up_days * _DAY_MS
    asked_s = min(error.wait_s or 0.0, _BACKOFF.longest_requested_s)
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
    done.lines.append(
        f"given up after {delivery.attempts} attempts: {error}"
        if is_late
        else f"not delivered, attempt {delivery.attempts}: {error}"
    )


def _record_delivery(
    store: Store, delivery: Delivery, worker: str, delivered: Delivered, now_ms: Callable[[], int]
) -> None:
    """Tries until the database is back or the claim is about to expire: a delivered message must not be sent again."""

    def mark() -> None:
        mark_delivered(
            store, delivery.id, worker=worker, now_ms=now_ms(), receipt=delivered.receipt, remark=delivered.remark
        )

    def say(line: str) -> None:
        _log.warning("a message was delivered, and the database is away: %s", line)

    retry(mark, _DATABASE_BACKOFF, on=_DATABASE_ERRORS, total_s=_PATIENCE_S, say=say)

"""The Retry-After of a destination is respected by every message and every command, for its whole length."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from tests.asv_results import AsvResults
from tests.http_inbox import Inbox
from warpwatch.ci.alerts.alert_content import Message
from warpwatch.ci.alerts.outbox_sender import DeliveryReport, Destinations, address_names, deliver_outbox
from warpwatch.ci.policy.policy_model import AlertsTable
from warpwatch.ci.retries import requested_wait_s
from warpwatch.dashboard.store import Store
from warpwatch.dashboard.store.outbox import queue_in_project, undelivered

START_MS = 1_700_000_000_000


@pytest.fixture
def store(sqlite_store: Store, asv: AsvResults) -> Store:
    asv.benchmark("suite.Bench.track_it")
    asv.commit(0, {"suite.Bench.track_it": asv.row([1.0])})
    asv.load(sqlite_store)
    return sqlite_store


def _queue(store: Store, address: str, *threads: str) -> None:
    (name,) = address_names([address])
    for thread in threads:
        message = Message(key=thread, thread=thread, title="t", text="x", payload={"key": thread})
        queue_in_project(store, "demo", thread, 1, {name: message.as_json()}, now_ms=START_MS)


def _send(store: Store, address: str, after_s: float, *, only_due: bool) -> DeliveryReport:
    return deliver_outbox(
        store,
        Destinations(AlertsTable(), [address], {}),
        give_up_days=7,
        only_due=only_due,
        project="demo",
        now_ms=lambda: START_MS + round(after_s * 1000),
    )


@pytest.mark.parametrize("scheme", ["http", "json", "mmost"])
@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("only_due", [True, False])
def test_nothing_goes_to_a_destination_before_the_time_that_it_names(
    scheme: str, status: int, only_due: bool, store: Store, inbox: Inbox
) -> None:
    path = {"http": "/hook", "json": "/hook", "mmost": "/3ccdd113474722377935511fc85d3dd4"}[scheme]
    address = inbox.url.replace("http", scheme, 1) + path
    inbox.answer, inbox.retry_after = status, "900"
    _queue(store, address, "a", "b")
    first = _send(store, address, 0, only_due=only_due)
    assert (first.sent, first.failed, len(inbox.received)) == (0, 1, 1)  # the second message did not even try
    assert str(status) in first.lines[0]
    inbox.answer, inbox.retry_after = 200, None
    _queue(store, address, "c")
    early = _send(store, address, 899, only_due=only_due)
    assert (early.sent, len(inbox.received)) == (0, 1)
    assert (early.failed, bool(early.lines)) == ((0, False) if only_due else (1, True))
    assert _send(store, address, 901, only_due=only_due).sent == 3
    assert undelivered(store, "demo") == ()


def test_another_destination_does_not_wait(store: Store, inbox: Inbox) -> None:
    address = f"{inbox.url}/hook"
    inbox.answer, inbox.retry_after = 429, "900"
    _queue(store, address, "a")
    _send(store, address, 0, only_due=True)
    inbox.answer, inbox.retry_after = 204, None
    other = inbox.url.replace("http://", "json://")
    _queue(store, other, "b")
    assert _send(store, other, 1, only_due=True).sent == 1


@pytest.mark.parametrize(
    ("stated", "wait"),
    [("60", 60.0), ("0", 0.0), ("soon", None), ("-5", None), ("", None), ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0)],
)
def test_seconds_and_dates_are_read_and_anything_else_is_no_request(stated: str, wait: float | None) -> None:
    assert requested_wait_s({"Retry-After": stated}) == wait


def test_a_date_is_so_far_off() -> None:
    date = format_datetime(datetime.now(UTC) + timedelta(minutes=10), usegmt=True)
    assert requested_wait_s({"Retry-After": date}) == pytest.approx(600, abs=60)
    assert requested_wait_s({}) is None

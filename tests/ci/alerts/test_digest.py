"""The digest: what a day or a week brought, once to each destination."""

import re
from datetime import UTC, datetime, timedelta

import pytest

from tests.ci.alerts.conftest import Scene
from tests.ci.alerts.test_lifecycle import OTHER, SLOW, STEADY
from tests.http_inbox import Inbox
from warpwatch.ci.alerts.alert_round import Round
from warpwatch.ci.alerts.digest import (
    Period,
    compose_digest,
    digest,
    digest_recipients,
    due,
    queue_digest,
    queue_digest_if_due,
)
from warpwatch.ci.alerts.outbox_sender import Destinations
from warpwatch.ci.policy.policy_model import AlertsTable, Destination


@pytest.fixture
def moved(scene: Scene) -> Scene:
    """One alert that was resolved, one that is open, and a machine that is silent."""
    scene.measure([*STEADY, *SLOW])
    scene.measure([*STEADY, *SLOW], name=OTHER, machine="<other>")
    scene.look()
    scene.measure(STEADY, first=20)
    scene.look()
    return scene


def a_round(scene: Scene, policy: AlertsTable) -> Round:
    places = Destinations(policy, scene.to, scene.environment)
    return Round(store=scene.store, project="demo", policy=policy, places=places)


def test_it_lists_new_open_and_resolved_alerts_and_the_state_of_runners(moved: Scene) -> None:
    now = datetime.now(UTC) + timedelta(seconds=1)
    summary = digest(moved.store, "demo", Period.DAILY, now)
    assert {(alert.machine, alert.state.value) for alert in summary.new} == {("<other>", "open"), ("box", "resolved")}
    assert [alert.machine for alert in summary.resolved] == ["box"]
    assert summary.open == ()
    assert {(alert.machine, round(one.magnitude, 2)) for alert, one in summary.worst} == {
        ("<other>", 0.3),
        ("box", 0.3),
    }
    assert [(runner.name, runner.is_overdue) for runner in summary.runners] == [("<other>", True), ("box", True)]
    later = digest(moved.store, "demo", Period.DAILY, now + timedelta(days=1))
    assert [alert.machine for alert in later.open] == ["<other>"]
    assert (later.new, later.resolved) == ((), ())
    message = compose_digest(summary, "https://perf.example.org")
    assert message.title == "demo, daily: 2 new, 0 still open, 1 resolved, 0 health alerts"
    assert "+30.0 %" in message.text
    assert message.html is not None
    assert "&lt;other&gt;" in message.html
    assert "<other>" not in message.html
    assert re.search(r'href="https://perf\.example\.org/demo/commit/0000000ac', message.html)


def test_a_period_s_digest_goes_out_once_to_each_destination(moved: Scene, inbox: Inbox) -> None:
    moved.environment = {"HOOK": inbox.url}
    hook = Destination(name="hook", url_env="HOOK")
    its = a_round(moved, AlertsTable(digest="daily", destination=(hook,), to=("hook",)))
    before = len(inbox.received)
    for _ in range(3):
        queue_digest_if_due(its)
        its.send(only_due=False)
    assert [message["event"] for message in inbox.received[before:]] == ["digest", "digest"]  # --to, and by name
    until = due(Period.WEEKLY, datetime.now(UTC), 7, 0)
    for _ in range(2):
        queue_digest(its, Period.WEEKLY, until, digest_recipients(its))
        its.send(only_due=False)
    assert [message["period"] for message in inbox.received[before + 2 :]] == ["weekly", "weekly"]


@pytest.mark.parametrize(
    ("period", "now", "expected"),
    [
        (Period.DAILY, "2026-11-25T06:59", "2026-11-24T07:00"),
        (Period.DAILY, "2026-11-25T07:00", "2026-11-25T07:00"),
        (Period.WEEKLY, "2026-11-25T12:00", "2026-11-23T07:00"),  # a Monday
        (Period.WEEKLY, "2026-11-23T06:00", "2026-11-16T07:00"),
    ],
)
def test_a_period_ends_at_its_time_of_day(period: Period, now: str, expected: str) -> None:
    assert due(period, datetime.fromisoformat(now).replace(tzinfo=UTC), 7, 0).isoformat() == f"{expected}:00+00:00"

"""Regressions become alerts once, and their messages go out once."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from warpwatch.dashboard.store import Store, queries
from warpwatch.dashboard.store.alert_records import AlertState
from warpwatch.dashboard.store.alerts import alerts, new_regressions, open_alert, set_state
from warpwatch.dashboard.store.outbox import claim_deliveries, mark_delivered, mark_failed

STEADY = [1.0, 1.01, 0.99, 1.0, 1.01, 1.0, 0.99, 1.0, 1.01, 1.0]
SLOW = [2.0, 2.01, 1.99, 2.0, 2.01, 2.0, 2.01, 1.99, 2.0, 2.01]
HOOK = {"http://hook": '{"text": "slower"}'}


@pytest.fixture
def regressed(store: Store, timed_history: Callable[..., Any]) -> Any:
    """A store with a history that doubles at its eleventh commit, and the folder it came from."""
    results = timed_history([*STEADY, *SLOW])
    results.load(store)
    return results


def test_a_regression_is_new_until_an_alert_holds_it(store: Store, regressed: Any) -> None:
    (group,) = new_regressions(store, "demo")
    assert group.commit.position == 10
    alert = open_alert(store, group, messages=HOOK, now_ms=1000)
    assert alert is not None
    assert new_regressions(store, "demo") == ()
    (kept,) = alerts(store, "demo")
    assert (kept.id, kept.state, kept.commit.hash, kept.machine) == (alert, AlertState.OPEN, group.commit.hash, "box")
    assert kept.series[0].magnitude == pytest.approx(1.0, abs=0.02)


def test_more_data_does_not_make_it_new_again(store: Store, regressed: Any, timed_history: Callable[..., Any]) -> None:
    open_alert(store, new_regressions(store, "demo")[0], messages=HOOK, now_ms=1000)
    timed_history([2.0, 2.01, 1.99] * 4, first=20).load(store)
    assert queries.regressions(store, "demo") != ()
    assert new_regressions(store, "demo") == ()


def test_a_changepoint_that_wanders_is_the_same_regression(
    store: Store, timed_history: Callable[..., Any], asv: Any
) -> None:
    timed_history([*STEADY, *SLOW]).load(store)
    (first,) = new_regressions(store, "demo")
    open_alert(store, first, messages=HOOK, now_ms=1000)
    for started in (100, 101, 102):  # its first slow commit was measured badly, say later runs
        asv.commit(10, {"suite.Bench.track_latency": asv.row([started / 100], started_at=started, spread=0.002)})
        asv.load(store)
    (now,) = queries.regressions(store, "demo")
    assert now.commit.position == first.commit.position + 1
    assert new_regressions(store, "demo") == ()


def test_a_second_regression_of_the_series_is_new(
    store: Store, regressed: Any, timed_history: Callable[..., Any]
) -> None:
    open_alert(store, new_regressions(store, "demo")[0], messages=HOOK, now_ms=1000)
    timed_history([3.0, 3.01, 2.99, 3.0, 3.02] * 3, first=20).load(store)
    (group,) = new_regressions(store, "demo")
    assert group.commit.position == 20


def test_a_quiet_history_raises_nothing(store: Store, timed_history: Callable[..., Any]) -> None:
    timed_history([1.0, 1.004, 0.997, 1.002, 0.999, 1.001, 1.003, 0.998] * 5).load(store)
    assert new_regressions(store, "demo") == ()


def test_two_commits_suffice_for_a_doubling_and_an_equal_pair_raises_nothing(
    store: Store, timed_history: Callable[..., Any]
) -> None:
    timed_history([1.0, 1.02]).load(store)
    assert new_regressions(store, "demo") == ()
    timed_history([2.1], first=2).load(store)
    (group,) = new_regressions(store, "demo")
    assert group.commit.position == 2


def test_years_old_regressions_of_a_first_import_are_no_news(store: Store, regressed: Any) -> None:
    assert new_regressions(store, "demo", recent_days=0.1) == ()  # commits are an hour apart
    assert len(new_regressions(store, "demo", recent_days=1)) == 1


def test_processes_that_open_the_same_alert_at_once_open_one(store: Store, regressed: Any) -> None:
    (group,) = new_regressions(store, "demo")
    opened: list[int | None] = []
    threads = [
        threading.Thread(target=lambda: opened.append(open_alert(store, group, messages=HOOK, now_ms=1)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(alert is None for alert in opened) == [False, True, True, True]
    assert len(claim_deliveries(store, destinations=HOOK, worker="w", now_ms=2)) == 1


def test_a_message_is_claimed_by_one_and_delivered_once(store: Store, regressed: Any) -> None:
    open_alert(store, new_regressions(store, "demo")[0], messages=HOOK, now_ms=1000)
    (message,) = claim_deliveries(store, destinations=HOOK, worker="a", now_ms=2000)
    assert (message.destination, message.payload, message.attempts) == ("http://hook", HOOK["http://hook"], 1)
    assert claim_deliveries(store, destinations=HOOK, worker="b", now_ms=2001) == ()
    assert mark_delivered(store, message.id, worker="a", now_ms=2002)
    assert claim_deliveries(store, destinations=HOOK, worker="b", now_ms=10_000_000) == ()
    assert not mark_delivered(store, message.id, worker="b", now_ms=2003)


def test_a_failed_message_is_tried_again_and_a_dead_senders_claim_runs_out(store: Store, regressed: Any) -> None:
    open_alert(store, new_regressions(store, "demo")[0], messages=HOOK, now_ms=1000)
    (first,) = claim_deliveries(store, destinations=HOOK, worker="a", now_ms=2000)
    mark_failed(store, first.id, worker="a", error="connection refused")
    (second,) = claim_deliveries(store, destinations=HOOK, worker="b", now_ms=2001)
    assert (second.id, second.attempts) == (first.id, 2)
    (third,) = claim_deliveries(store, destinations=HOOK, worker="c", now_ms=2001 + 120_000)
    assert third.id == first.id
    assert not mark_delivered(store, third.id, worker="b", now_ms=200_000)
    assert mark_delivered(store, third.id, worker="c", now_ms=200_000)


def test_an_alert_moves_through_its_states_and_remembers_them(store: Store, regressed: Any) -> None:
    alert = open_alert(store, new_regressions(store, "demo")[0], messages={}, now_ms=1000)
    assert alert is not None
    assert set_state(store, alert, AlertState.ACKNOWLEDGED, now_ms=2000, author="ada", note="mine")
    assert not set_state(store, alert, AlertState.ACKNOWLEDGED, now_ms=2001)
    assert set_state(store, alert, AlertState.RESOLVED, now_ms=3000, messages=HOOK)
    (kept,) = alerts(store, "demo", states=[AlertState.RESOLVED])
    assert [(event.state, event.author) for event in kept.events] == [
        (AlertState.OPEN, None), (AlertState.ACKNOWLEDGED, "ada"), (AlertState.RESOLVED, None),
    ]  # fmt: skip
    (message,) = claim_deliveries(store, destinations=HOOK, worker="a", now_ms=4000)
    assert message.kind == "resolved"
    assert alerts(store, "demo", states=[AlertState.OPEN]) == ()

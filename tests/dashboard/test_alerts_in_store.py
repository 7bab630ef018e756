"""Regressions become alerts once, and their messages go out once."""

import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import delete, event

from tests.asv_results import AsvResults, hash_of
from tests.stored import new_regressions, regression_alerts, regressions_by_alert
from warpwatch.dashboard.analysis.series_analysis import analyse
from warpwatch.dashboard.importers.asv_folder import open_folder
from warpwatch.dashboard.importers.import_asv import import_results
from warpwatch.dashboard.model.alert import AlertState
from warpwatch.dashboard.model.comparison import Acceptance
from warpwatch.dashboard.store import Store, queries
from warpwatch.dashboard.store.alert_opening import open_regression_alert
from warpwatch.dashboard.store.alert_updates import RegressionUpdate, update_regression_alert
from warpwatch.dashboard.store.outbox import (
    claim_next,
    mark_delivered,
    mark_failed,
    queue_in_project,
    revive,
    undelivered,
)
from warpwatch.dashboard.store.policy import record_acceptances
from warpwatch.dashboard.store.queries import alerts
from warpwatch.dashboard.store.queries.alerts import alert_snapshot
from warpwatch.dashboard.store.schema import changepoint

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
    alert = open_regression_alert(store, group, messages=HOOK, now_ms=1000)
    assert alert is not None
    assert new_regressions(store, "demo") == ()
    (kept,) = regression_alerts(store, "demo")
    assert (kept.id, kept.state, kept.commit.hash, kept.machine) == (alert, AlertState.OPEN, group.commit.hash, "box")
    assert kept.series[0].magnitude == pytest.approx(1.0, abs=0.02)


def test_more_data_does_not_make_it_new_again(store: Store, regressed: Any, timed_history: Callable[..., Any]) -> None:
    open_regression_alert(store, new_regressions(store, "demo")[0], messages=HOOK, now_ms=1000)
    timed_history([2.0, 2.01, 1.99] * 4, first=20).load(store)
    assert queries.regressions(store, "demo") != ()
    assert new_regressions(store, "demo") == ()


def test_a_changepoint_that_wanders_is_the_same_regression(
    store: Store, timed_history: Callable[..., Any], asv: Any
) -> None:
    timed_history([*STEADY, *SLOW]).load(store)
    (first,) = new_regressions(store, "demo")
    open_regression_alert(store, first, messages=HOOK, now_ms=1000)
    for started in (100, 101, 102):  # its first slow commit was measured badly, say later runs
        asv.commit(10, {"suite.Bench.track_latency": asv.row([started / 100], started_at=started, spread=0.002)})
        asv.load(store)
    (now,) = queries.regressions(store, "demo")
    assert now.commit.position == first.commit.position + 1
    assert new_regressions(store, "demo") == ()


def test_a_second_regression_of_the_series_is_new(
    store: Store, regressed: Any, timed_history: Callable[..., Any]
) -> None:
    open_regression_alert(store, new_regressions(store, "demo")[0], messages=HOOK, now_ms=1000)
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
        threading.Thread(target=lambda: opened.append(open_regression_alert(store, group, messages=HOOK, now_ms=1)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(alert is None for alert in opened) == [False, True, True, True]
    assert claim_next(store, destinations=HOOK, worker="w", now_ms=2) is not None
    assert claim_next(store, destinations=HOOK, worker="v", now_ms=2) is None


def test_a_message_is_claimed_by_one_and_delivered_once(store: Store, regressed: Any) -> None:
    open_regression_alert(store, new_regressions(store, "demo")[0], messages=HOOK, now_ms=1000)
    message = claim_next(store, destinations=HOOK, worker="a", now_ms=2000)
    assert message is not None
    assert (message.destination, message.payload, message.attempts) == ("http://hook", HOOK["http://hook"], 1)
    assert claim_next(store, destinations=HOOK, worker="b", now_ms=2001) is None
    assert mark_delivered(store, message.id, worker="a", now_ms=2002)
    assert claim_next(store, destinations=HOOK, worker="b", now_ms=10_000_000) is None
    assert not mark_delivered(store, message.id, worker="b", now_ms=2003)


def test_a_failed_message_waits_for_its_next_attempt_and_a_dead_senders_claim_runs_out(
    store: Store, regressed: Any
) -> None:
    open_regression_alert(store, new_regressions(store, "demo")[0], messages=HOOK, now_ms=1000)
    first = claim_next(store, destinations=HOOK, worker="a", now_ms=2000)
    assert first is not None
    mark_failed(store, first.id, worker="a", error="connection refused", next_attempt_ms=5000)
    assert claim_next(store, destinations=HOOK, worker="b", now_ms=4999) is None
    second = claim_next(store, destinations=HOOK, worker="b", now_ms=5000)
    assert second is not None
    assert (second.id, second.attempts) == (first.id, 2)
    assert claim_next(store, destinations=HOOK, worker="c", now_ms=5001) is None
    third = claim_next(store, destinations=HOOK, worker="c", now_ms=5001, is_gone=lambda worker: worker == "b")
    assert third is not None
    last = claim_next(store, destinations=HOOK, worker="d", now_ms=5001 + 120_000)
    assert last is not None
    assert third.id == last.id == first.id
    assert not mark_delivered(store, last.id, worker="c", now_ms=200_000)
    assert mark_delivered(store, last.id, worker="d", now_ms=200_000)


def test_no_message_of_a_thread_overtakes_another_until_that_is_given_up(store: Store, regressed: Any) -> None:
    for number in (2, 1):
        queue_in_project(store, "demo", "thread", number, {"a": f"{number}", "b": f"{number}"}, now_ms=1)
    queue_in_project(store, "demo", "thread", 1, {"a": "again"}, now_ms=1)  # it is there
    claimed = [claim_next(store, destinations=["a"], worker="w", now_ms=2) for _ in range(2)]
    assert [each and each.payload for each in claimed] == ["1", None]
    first = claimed[0]
    assert first is not None
    mark_failed(store, first.id, worker="w", error="refused", next_attempt_ms=100)
    assert claim_next(store, destinations=["a"], worker="w", now_ms=50) is None
    other = claim_next(store, destinations=["b"], worker="w", now_ms=50)
    assert other is not None
    assert other.payload == "1"  # another destination's order is its own
    again = claim_next(store, destinations=["a"], worker="w", now_ms=50, only_due=False)
    assert again is not None
    mark_failed(store, again.id, worker="w", error="refused", next_attempt_ms=100, given_up_ms=60)
    second = claim_next(store, destinations=["a"], worker="w", now_ms=70)
    assert second is not None
    assert second.payload == "2"
    assert [(each.destination, each.given_up is not None) for each in undelivered(store, "demo")] == [
        ("a", False),
        ("b", False),
        ("a", True),
        ("b", False),
    ]
    assert revive(store, "demo", now_ms=80) == 1
    revived = claim_next(store, destinations=["a"], worker="w", now_ms=80)
    assert revived is not None
    assert revived.id == first.id


def test_what_was_decided_meanwhile_is_not_overwritten(store: Store, regressed: Any) -> None:
    open_regression_alert(store, new_regressions(store, "demo")[0], messages={}, now_ms=1000)
    (alert,) = regression_alerts(store, "demo")
    over = RegressionUpdate(
        held=(), resolved=frozenset({alert.series[0].series.key}), state=AlertState.RESOLVED, note="back"
    )
    assert update_regression_alert(store, alert, over, messages={}, now_ms=2000)
    assert not update_regression_alert(store, alert, over, messages={}, now_ms=3000)
    (kept,) = regression_alerts(store, "demo", states=[AlertState.RESOLVED])
    assert [(event.state, event.author, event.note) for event in kept.events] == [
        (AlertState.OPEN, None, None),
        (AlertState.RESOLVED, None, "back"),
    ]
    assert kept.series[0].is_resolved
    assert regression_alerts(store, "demo", states=[AlertState.OPEN]) == ()


def test_a_range_that_is_measured_in_between_is_the_same_regression(
    store: Store, timed_history: Callable[..., Any], asv: Any
) -> None:
    timed_history(STEADY).load(store)
    timed_history(SLOW, first=100).load(store)
    (first,) = new_regressions(store, "demo")
    assert (first.previous_commit.hash, first.commit.hash) == (hash_of(9), hash_of(100))
    open_regression_alert(store, first, messages={}, now_ms=1000)
    for number in range(10, 100, 6):  # as a bisection does: fifteen commits with a number before the change, and after
        timed_history([1.0 if number < 60 else 2.0], first=number).load(store)
    assert new_regressions(store, "demo") == ()
    (alert,) = regression_alerts(store, "demo")
    (one,) = regressions_by_alert(store, "demo").of_alerts[alert.id]
    assert one.change.commit.hash == hash_of(64)


def test_an_alert_does_not_end_by_findings_that_are_being_made(
    store: Store, regressed: Any, timed_history: Callable[..., Any]
) -> None:
    open_regression_alert(store, new_regressions(store, "demo")[0], messages={}, now_ms=1000)
    (alert,) = regression_alerts(store, "demo")
    over = RegressionUpdate(held=(), resolved=frozenset({alert.series[0].series.key}), state=AlertState.RESOLVED)
    results = timed_history([2.0], first=20)
    import_results(store, open_folder(results.folder, project="demo"))
    assert not update_regression_alert(store, alert, over, messages={}, now_ms=2000)  # imported, and not analysed
    analyse(store)
    assert not update_regression_alert(store, alert, over, messages={}, now_ms=3000)  # analysed since it was read
    (alert,) = regression_alerts(store, "demo")
    assert update_regression_alert(store, alert, over, messages={}, now_ms=4000)


def test_emptying_the_outbox_takes_time_in_proportion_to_what_waits(sqlite_store: Store, asv: AsvResults) -> None:
    """Counted in steps of SQLite's machine; other messages, delivered long ago, add none."""
    asv.benchmark("suite.Bench.track_it")
    asv.commit(0, {"suite.Bench.track_it": asv.row([1.0])})
    asv.load(sqlite_store)
    steps = 0

    def step() -> None:
        nonlocal steps
        steps += 1

    event.listen(sqlite_store.engine, "checkout", lambda connection, *_: connection.set_progress_handler(step, 1))

    def emptied(thread: str, count: int) -> int:
        for number in range(count):
            queue_in_project(sqlite_store, "demo", f"{thread}{number}", 1, {"a": "{}"}, now_ms=1)
        before, last, claimed = steps, 0, 0
        while message := claim_next(sqlite_store, destinations=["a"], worker="w", now_ms=2, after=last):
            claimed, last = claimed + 1, message.id
            mark_delivered(sqlite_store, message.id, worker="w", now_ms=3)
        assert claimed == count
        return steps - before

    few, many, few_again = emptied("a", 30), emptied("b", 240), emptied("c", 30)
    assert few > 0
    assert many < 8 * few * 1.5
    assert few_again < few * 1.5


def test_a_look_sees_one_moment(store: Store, regressed: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What another process does while it reads is seen by the next one, and by no part of this one."""
    group = new_regressions(store, "demo")[0]
    read = alerts.regressions_in

    def read_while_another_alerts(*words: Any) -> Any:
        monkeypatch.undo()
        assert open_regression_alert(store, group, messages={}, now_ms=1000) is not None
        return read(*words)

    monkeypatch.setattr(alerts, "regressions_in", read_while_another_alerts)
    before = alert_snapshot(store, "demo", recent_days=30, max_false_discovery_rate=0.05)
    assert (len(before.new), before.held, before.alerts) == (1, {}, ())
    after = alert_snapshot(store, "demo", recent_days=30, max_false_discovery_rate=0.05)
    assert (after.new, [alert.id for alert in after.alerts], [*after.held]) == ((), [1], [1])
    assert after.changes[group.regressions[0].series.key]


def test_a_resolved_alert_is_read_only_where_the_detector_still_finds_its_change(store: Store, regressed: Any) -> None:
    def known() -> list[AlertState]:
        return [
            alert.state for alert in alert_snapshot(store, "demo", recent_days=30, max_false_discovery_rate=0.05).alerts
        ]

    open_regression_alert(store, new_regressions(store, "demo")[0], messages={}, now_ms=1000)
    assert known() == [AlertState.OPEN]
    (alert,) = regression_alerts(store, "demo")
    keys = frozenset({alert.series[0].series.key})
    assert update_regression_alert(
        store, alert, RegressionUpdate(held=(), resolved=keys, state=AlertState.RESOLVED), messages={}, now_ms=2000
    )
    assert known() == [AlertState.RESOLVED]
    with store.write("demo") as connection:  # as an analysis of newer results may
        connection.execute(delete(changepoint))
    assert known() == []


def test_what_is_written_of_one_project_leaves_what_is_remembered_of_others(store: Store, regressed: Any) -> None:
    open_regression_alert(store, new_regressions(store, "demo")[0], messages={}, now_ms=1000)
    regressed.load(store, project="other")
    (alert,) = regression_alerts(store, "demo")
    said = Acceptance(pattern="*", reason="known", by="ann", at=datetime.now(UTC), source="a note", at_most=None)
    before = store.generation("other")
    over = RegressionUpdate(held=(), resolved=frozenset({alert.series[0].series.key}), state=AlertState.RESOLVED)
    assert update_regression_alert(store, alert, over, messages={}, now_ms=2000)
    record_acceptances(store, "demo", hash_of(1), hash_of(2), [said], now_ms=3)
    assert store.generation("other") == before

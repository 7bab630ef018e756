"""People triage regressions: items, states, notes, moved commits, and two who decide at once. Both databases."""

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.asv_results import START_MS, AsvResults, hash_of
from tests.stored import new_regressions, regression_alerts, stored_history
from warpwatch.dashboard.model.alert import (
    WAITING,
    AlertState,
    EventKind,
    ItemVersion,
    LastNotification,
    TriageFilter,
    TriageItem,
    TriageOrder,
    TriageState,
)
from warpwatch.dashboard.model.verdict import ChangeKind
from warpwatch.dashboard.store import Store, queries
from warpwatch.dashboard.store.alert_opening import open_regression_alert
from warpwatch.dashboard.store.alert_updates import RegressionUpdate, update_regression_alert
from warpwatch.dashboard.store.outbox import claim_next
from warpwatch.dashboard.store.retention import RetentionPolicy, compact, drop_project
from warpwatch.dashboard.store.triage import (
    ChangedMeanwhileError,
    Decision,
    NoMeasuredCommitError,
    is_web_address,
    triage,
)

STEADY = [1.0, 1.01, 0.99, 1.0, 1.01, 1.0, 0.99, 1.0, 1.01, 1.0]
SLOW = [2.0, 2.01, 1.99, 2.0, 2.01, 2.0, 2.01, 1.99, 2.0, 2.01]
SLOWER = [3.0, 3.01, 2.99, 3.0, 3.02, 3.0, 3.01, 2.99, 3.0, 3.01]
WHO: dict[str, Any] = {"author": "Ada", "now_ms": 1_000}
ACKNOWLEDGE = Decision(state=AlertState.ACKNOWLEDGED)


@pytest.fixture
def regressed(store: Store, timed_history: Callable[..., Any]) -> AsvResults:
    """A store with a history that doubles at its eleventh commit, and the folder it came from."""
    results: AsvResults = timed_history([*STEADY, *SLOW])
    results.load(store)
    return results


def the_item(store: Store) -> TriageItem:
    (found,) = queries.triage_items(store, "demo", TriageFilter()).items
    return found


def test_a_regression_that_no_alert_holds_is_an_untriaged_card(store: Store, regressed: AsvResults) -> None:
    item = the_item(store)
    assert (item.state, item.alert, item.machine, item.total) == (TriageState.UNTRIAGED, None, "box", 1)
    assert (item.commit.hash, item.previous_commit.hash) == (hash_of(10), hash_of(9))
    assert item.regressions[0].change.magnitude == pytest.approx(1.0, abs=0.02)
    assert item == queries.triage_item(store, "demo", item.seen.key)
    assert queries.triage_items(store, "none", TriageFilter()).any_at_all is False


def test_triaging_opens_an_alert_that_is_never_sent(store: Store, regressed: AsvResults) -> None:
    seen = the_item(store).seen
    (alert,) = triage(store, "demo", [seen], Decision(state=AlertState.EXPECTED, note=" on purpose "), **WHO)
    item = the_item(store)
    assert (item.seen.key, item.state) == (f"alert-{alert}", TriageState.EXPECTED)
    assert item.alert is not None
    assert [(e.kind, e.state, e.author, e.note) for e in item.alert.events] == [
        (EventKind.STATE, AlertState.OPEN, "Ada", None),
        (EventKind.STATE, AlertState.EXPECTED, "Ada", "on purpose"),
    ]
    assert new_regressions(store, "demo") == ()
    assert claim_next(store, destinations=["http://hook"], worker="w", now_ms=2) is None
    assert queries.triage_item(store, "demo", seen.key) is None


def test_an_alert_that_was_sent_is_the_same_card(store: Store, regressed: AsvResults) -> None:
    number = open_regression_alert(store, new_regressions(store, "demo")[0], messages={"http://hook": "{}"}, now_ms=5)
    item = the_item(store)
    assert (item.seen, item.state, item.total) == (ItemVersion(key=f"alert-{number}", version="1"), TriageState.OPEN, 1)
    assert item.regressions[0].change.commit.hash == hash_of(10)
    triage(store, "demo", [item.seen], ACKNOWLEDGE, **WHO)
    assert claim_next(store, destinations=["http://hook"], worker="w", now_ms=6) is not None


def measured_in_between(store: Store, timed_history: Callable[..., Any]) -> None:
    """A change between two commits far apart is alerted, then a bisection moves it beyond SAME_PLACE commits."""
    timed_history(STEADY).load(store)
    timed_history(SLOW, first=100).load(store)
    (group,) = new_regressions(store, "demo")
    open_regression_alert(store, group, messages={}, now_ms=5)
    for number in range(10, 100, 6):
        timed_history([1.0 if number < 60 else 2.0], first=number).load(store)


def test_a_change_that_moved_within_the_range_of_its_alert_is_on_the_card_of_that_alert(
    store: Store, timed_history: Callable[..., Any]
) -> None:
    measured_in_between(store, timed_history)
    item = the_item(store)
    assert item.alert is not None
    assert [one.change.commit.hash for one in item.regressions] == [hash_of(64)]
    assert triage(store, "demo", [item.seen], ACKNOWLEDGE, **WHO) == (item.alert.id,)
    assert [alert.id for alert in regression_alerts(store, "demo")] == [item.alert.id]


def test_a_change_within_the_range_of_an_alert_s_first_message_is_on_its_card(
    store: Store, timed_history: Callable[..., Any]
) -> None:
    timed_history(STEADY).load(store)
    timed_history(SLOW, first=100).load(store)
    (group,) = new_regressions(store, "demo")
    ends = (hash_of(9), hash_of(100))
    notified = LastNotification(start=ends[0], end=ends[1], worst=(1.0, 0.9, 1.1), first_range=ends)
    open_regression_alert(store, group, messages={}, now_ms=5, notified=notified)
    for number in range(10, 100, 6):
        timed_history([1.0 if number < 60 else 2.0], first=number).load(store)
    (alert,) = regression_alerts(store, "demo")
    commits = {commit.hash: commit for commit in queries.commits(store, "demo")}
    narrowed = (commits[hash_of(94)], commits[hash_of(100)])  # an outlier had the range narrowed too far
    assert update_regression_alert(
        store, alert, RegressionUpdate(held=(), resolved=frozenset(), between=narrowed), messages={}, now_ms=6
    )
    item = the_item(store)
    assert (item.alert and item.alert.id, item.regressions[0].change.commit.hash) == (alert.id, hash_of(64))


def test_no_second_alert_opens_for_a_change_that_belongs_to_one(
    store: Store, timed_history: Callable[..., Any]
) -> None:
    measured_in_between(store, timed_history)
    (group,) = queries.regressions(store, "demo")  # as a daemon saw it before the alert was there
    assert open_regression_alert(store, group, messages={"http://hook": "{}"}, now_ms=7) is None
    assert len(regression_alerts(store, "demo")) == 1
    assert claim_next(store, destinations=["http://hook"], worker="w", now_ms=8) is None


def test_assignee_link_and_notes_are_stored_and_removed(store: Store, regressed: AsvResults) -> None:
    first = Decision(assignee="Bo", link="https://example.org/issues/7", note="mine")
    triage(store, "demo", [the_item(store).seen], first, **WHO)
    alert = the_item(store).alert
    assert alert is not None
    assert (alert.assignee, alert.link, alert.state, alert.version) == (
        "Bo",
        "https://example.org/issues/7",
        AlertState.OPEN,
        2,
    )
    triage(store, "demo", [the_item(store).seen], Decision(assignee=" ", link="", note="again"), **WHO)
    alert = the_item(store).alert
    assert alert is not None
    assert (alert.assignee, alert.link) == (None, None)
    assert [(e.kind, e.detail, e.note) for e in alert.events[1:]] == [
        (EventKind.ASSIGNED, "Bo", "mine"),
        (EventKind.LINKED, "https://example.org/issues/7", None),
        (EventKind.ASSIGNED, None, "again"),
        (EventKind.LINKED, None, None),
    ]
    triage(store, "demo", [the_item(store).seen], Decision(note="only a note"), **WHO)
    again = the_item(store).alert
    assert again is not None
    assert (again.events[-1].kind, again.events[-1].note) == (EventKind.NOTED, "only a note")


def test_the_later_of_two_reads_what_the_other_did(store: Store, regressed: AsvResults) -> None:
    as_new = the_item(store).seen
    triage(store, "demo", [as_new], ACKNOWLEDGE, **WHO)
    with pytest.raises(ChangedMeanwhileError, match="it was triaged"):
        triage(store, "demo", [as_new], Decision(state=AlertState.EXPECTED), author="Bo", now_ms=2)
    as_seen = the_item(store).seen
    triage(store, "demo", [as_seen], Decision(state=AlertState.FALSE_ALARM), **WHO)
    with pytest.raises(ChangedMeanwhileError, match=r"Ada set it to “false alarm”"):
        triage(store, "demo", [as_seen], Decision(note="late"), author="Bo", now_ms=3)
    item = the_item(store)
    assert item.alert is not None
    assert all(event.author == "Ada" for event in item.alert.events)


def test_of_many_concurrent_decisions_one_is_stored(store: Store, regressed: AsvResults) -> None:
    seen = the_item(store).seen
    done: list[str] = []

    def decide(name: str) -> None:
        try:
            triage(store, "demo", [seen], Decision(state=AlertState.EXPECTED, note=name), author=name, now_ms=1)
            done.append(name)
        except ChangedMeanwhileError:
            done.append("")

    threads = [threading.Thread(target=decide, args=(name,)) for name in ("a", "b", "c", "d")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(bool(name) for name in done) == [False, False, False, True]
    (alert,) = regression_alerts(store, "demo")
    assert [alert.events[-1].author, *{"", *done} - {""}] == [max(done)] * 2


@pytest.fixture
def several(store: Store, timed_history: Callable[..., Any]) -> AsvResults:
    """Three items: two benchmarks double at commit 10, one of them grows at 20, and at 15 on another machine."""
    timed_history([*STEADY, *SLOW, *SLOWER])
    results: AsvResults = timed_history([*STEADY, *SLOW, *SLOW], name="suite.Other.track_latency")
    for number, value in enumerate([*STEADY, *STEADY[:5], *[1.2 * v for v in STEADY], *[1.2] * 5]):
        rows = {"suite.Bench.track_latency": results.row([value], started_at=number + 1, spread=0.002)}
        results.commit(number, rows, machine="shed")
    for number in range(30):
        rows = {
            name: results.row([values[number]], started_at=number + 1, spread=0.002)
            for name, values in (
                ("suite.Bench.track_latency", [*STEADY, *SLOW, *SLOWER]),
                ("suite.Other.track_latency", [*STEADY, *SLOW, *SLOW]),
            )
        }
        results.commit(number, rows)
    results.load(store)
    return results


def places(store: Store, **wanted: Any) -> list[tuple[int, str]]:
    found = queries.triage_items(store, "demo", TriageFilter(**wanted)).items
    return [(item.commit.position, item.machine) for item in found]


def test_cards_are_by_commit_and_machine_newest_or_worst_first(store: Store, several: AsvResults) -> None:
    assert places(store) == [(20, "box"), (15, "shed"), (10, "box")]
    assert places(store, order=TriageOrder.WORST) == [(10, "box"), (20, "box"), (15, "shed")]
    worst = queries.triage_items(store, "demo", TriageFilter(order=TriageOrder.WORST)).items[0]
    assert (worst.total, len(worst.regressions)) == (2, 2)
    assert worst.severity is not None
    assert (worst.severity.metric.name, worst.severity.series) == ("latency", 2)
    assert worst.severity.mean == pytest.approx(0.69, abs=0.1)  # both at least nearly doubled


def test_filters_narrow_and_every_state_is_counted(store: Store, several: AsvResults) -> None:
    assert places(store, machine="shed") == [(15, "shed")]
    assert places(store, words="other LATENCY") == [(10, "box")]
    since = datetime.fromtimestamp(START_MS / 1000, UTC) + timedelta(hours=12)
    assert places(store, since=since) == [(20, "box"), (15, "shed")]
    (narrow,) = queries.triage_items(store, "demo", TriageFilter(words="other")).items
    assert (narrow.matching, narrow.total, len(narrow.regressions)) == (1, 2, 1)
    triage(store, "demo", [narrow.seen], Decision(state=AlertState.RESOLVED), **WHO)
    listed = queries.triage_items(store, "demo", TriageFilter(states=WAITING))
    assert {state: n for state, n in listed.counts.items() if n} == {
        TriageState.UNTRIAGED: 2,
        TriageState.RESOLVED: 1,
    }
    assert listed.total == 2
    (kept,) = queries.triage_items(store, "demo", TriageFilter(states=(TriageState.RESOLVED,))).items
    assert kept.total == 2  # the decision was about the whole item
    assert places(store)[1:] == [
        (item.commit.position, item.machine)
        for item in queries.triage_items(store, "demo", TriageFilter(), offset=1).items
    ]


def test_many_cards_are_decided_together_or_not_at_all(store: Store, several: AsvResults) -> None:
    seen = [item.seen for item in queries.triage_items(store, "demo", TriageFilter()).items]
    triage(store, "demo", [seen[1]], ACKNOWLEDGE, **WHO)
    with pytest.raises(ChangedMeanwhileError):
        triage(store, "demo", seen, Decision(state=AlertState.EXPECTED), **WHO)
    assert len(regression_alerts(store, "demo")) == 1
    now = [item.seen for item in queries.triage_items(store, "demo", TriageFilter()).items]
    triage(store, "demo", now, Decision(state=AlertState.EXPECTED), **WHO)
    assert {alert.state for alert in regression_alerts(store, "demo")} == {AlertState.EXPECTED}
    assert len(regression_alerts(store, "demo")) == 3


def test_a_moved_commit_is_shown_with_the_detectors_and_outlives_an_analysis(
    store: Store, regressed: AsvResults, timed_history: Callable[..., Any]
) -> None:
    triage(store, "demo", [the_item(store).seen], Decision(move=-1, note="the revert shows it"), **WHO)
    stated = the_item(store).alert.stated  # type: ignore[union-attr]
    assert (stated.commit.hash, stated.previous_commit.hash, stated.author) == (hash_of(9), hash_of(8), "Ada")
    timed_history([2.0, 2.01, 1.99] * 4, first=20).load(store)
    item = the_item(store)
    assert item.alert is not None
    assert item.alert.stated == stated
    assert item.commit.hash == item.regressions[0].change.commit.hash == hash_of(10)
    (of_series,) = queries.stated_changes(store, item.regressions[0].series.key)
    assert (of_series.detected.hash, of_series.stated, of_series.alert) == (hash_of(10), stated, item.alert.id)
    triage(store, "demo", [item.seen], Decision(move=1), **WHO)
    back = the_item(store)
    assert back.alert is not None
    assert back.alert.stated is None
    moves = [(e.note, e.detail) for e in back.alert.events if e.kind is EventKind.MOVED]
    assert moves == [("the revert shows it", hash_of(9)), (None, hash_of(10))]


def test_a_commit_is_moved_to_measured_ones_alone(store: Store, asv: AsvResults) -> None:
    asv.benchmark("suite.Bench.track_latency")
    values = [*STEADY[:8], None, *SLOW[:4]]
    for number, value in enumerate(values):
        asv.commit(number, {"suite.Bench.track_latency": asv.row([value], started_at=number + 1, spread=0.002)})
    asv.load(store)
    item = the_item(store)
    assert (item.previous_commit.hash, item.commit.hash) == (hash_of(7), hash_of(9))
    triage(store, "demo", [item.seen], Decision(move=-1), **WHO)
    assert the_item(store).alert.stated.commit.hash == hash_of(7)  # type: ignore[union-attr]
    for _ in range(4):
        triage(store, "demo", [the_item(store).seen], Decision(move=1), **WHO)
    assert the_item(store).alert.stated.commit.hash == hash_of(12)  # type: ignore[union-attr]
    with pytest.raises(NoMeasuredCommitError, match="no measured commit after"):
        triage(store, "demo", [the_item(store).seen], Decision(move=1, note="nor this"), **WHO)
    assert the_item(store).alert.events[-1].note is None  # type: ignore[union-attr]


def test_a_change_no_longer_detected_stays_on_the_item_of_its_alert(
    store: Store, regressed: AsvResults, timed_history: Callable[..., Any]
) -> None:
    triage(store, "demo", [the_item(store).seen], ACKNOWLEDGE, **WHO)
    for started in (100, 101, 102, 103):  # later runs say that it was never slow
        for number in range(10, 20):
            values = [STEADY[number - 10] + started / 100_000]
            row = regressed.row(values, started_at=started * 100 + number, spread=0.002)
            regressed.commit(number, {"suite.Bench.track_latency": row})
        regressed.load(store)
    item = the_item(store)
    assert item.regressions == ()
    assert [one.series.benchmark for one in item.gone] == ["suite.Bench.track_latency"]


def test_states_set_elsewhere_count_as_changes(store: Store, regressed: AsvResults) -> None:
    number = open_regression_alert(store, new_regressions(store, "demo")[0], messages={}, now_ms=5)
    assert number is not None
    seen = the_item(store).seen
    (alert,) = regression_alerts(store, "demo")
    over = RegressionUpdate(held=(), resolved=frozenset(), state=AlertState.RESOLVED)
    assert update_regression_alert(store, alert, over, messages={}, now_ms=6)
    with pytest.raises(ChangedMeanwhileError, match=r"A program set it to “resolved”"):
        triage(store, "demo", [seen], ACKNOWLEDGE, **WHO)


def test_retention_keeps_commits_that_people_named(store: Store, several: AsvResults) -> None:
    seen = [item.seen for item in queries.triage_items(store, "demo", TriageFilter()).items]
    triage(store, "demo", seen, Decision(move=-1), **WHO)
    said = {alert.stated.commit.hash for alert in regression_alerts(store, "demo") if alert.stated}
    compact(store, "demo", RetentionPolicy(thin_after_days=0, thin_every=1000))
    kept = {
        point.commit.hash
        for each in queries.find_series(store, "demo").series
        for point in stored_history(store, each.key).points  # type: ignore[union-attr]
    }
    assert said <= kept
    assert len(kept) < 30
    drop_project(store, "demo")
    assert queries.triage_items(store, "demo", TriageFilter()).items == ()


@pytest.mark.parametrize(
    "link",
    ["javascript:alert(1)", "https://", "//host/x", "data:text/html,x", "http://a b", "ftp://h", "http://["],
)
def test_only_addresses_of_the_web_are_links(link: str) -> None:
    assert not is_web_address(link)
    with pytest.raises(ValueError, match="http://"):
        Decision(link=link)
    assert is_web_address("https://example.org/a?b=c#d")


def test_text_that_no_database_takes_or_is_too_long_is_refused() -> None:
    for wrong in ({"note": "a\0b"}, {"note": "x" * 10_001}, {"assignee": "half \ud800"}, {"assignee": "x" * 501}):
        with pytest.raises(ValueError, match="longer than"):
            Decision(**wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="one commit at a time"):
        Decision(move=2)


def test_what_no_commit_is_accused_of_is_listed_by_commit_and_machine_and_never_a_card(
    store: Store, timed_history: Callable[..., Any]
) -> None:
    spiky = [*STEADY, 1.6, 1.61, *STEADY]
    timed_history(spiky).load(store)
    found = queries.unattributed_changes(store, "demo", ChangeKind.TRANSIENT)
    assert queries.regressions(store, "demo", kind=ChangeKind.TRANSIENT) == found.groups
    assert (found.total, found.any_at_all) == (1, True)
    assert queries.triage_items(store, "demo", TriageFilter()).any_at_all is False
    for wanted in ({"words": "other"}, {"machine": "shed"}, {"since": datetime.now(UTC)}, {"offset": 1}):
        narrowed = queries.unattributed_changes(store, "demo", ChangeKind.TRANSIENT, **wanted)  # type: ignore[arg-type]
        assert (narrowed.groups, narrowed.any_at_all) == ((), True), wanted
    assert queries.unattributed_changes(store, "demo", ChangeKind.TRANSIENT, words="LATENCY bench").total == 1
    assert queries.unattributed_changes(store, "demo", ChangeKind.MACHINE_STATE).any_at_all is False
    assert queries.unattributed_changes(store, "none", ChangeKind.DRIFT).groups == ()

"""An alert from its opening to its end: sent once, updated, resolved by itself, and left alone where people decided."""

import sqlite3
import sys

import pytest
from sqlalchemy import event

from tests.asv_results import AsvResults, hash_of
from tests.ci.alerts.conftest import Scene
from tests.http_inbox import Inbox
from tests.stored import regression_alerts
from warpwatch.dashboard.model.alert import AlertState, EventKind, RegressionAlert, TriageFilter
from warpwatch.dashboard.store import Store, queries
from warpwatch.dashboard.store.triage import Decision, triage

STEADY = [1.0, 1.01, 0.99, 1.0, 1.01, 1.0, 0.99, 1.0, 1.01, 1.0]
SLOW = [1.3 * value for value in STEADY]
SLOWER = [2.0 * value for value in STEADY]
OTHER = "suite.Other.track_latency"


def the_alert(scene: Scene) -> RegressionAlert:
    (found,) = regression_alerts(scene.store, "demo")
    return found


def decide(scene: Scene, state: AlertState) -> None:
    (card,) = queries.triage_items(scene.store, "demo", TriageFilter()).items
    triage(scene.store, "demo", [card.seen], Decision(state=state), author="Ada", now_ms=1)


def actions(inbox: Inbox) -> list[str]:
    return [message["action"] for message in inbox.received]


def test_a_regression_is_opened_once_and_resolved_when_the_level_is_back(scene: Scene, inbox: Inbox) -> None:
    scene.measure([*STEADY, *SLOW])
    for _ in range(2):
        scene.look()
    assert actions(inbox) == ["opened"]
    assert the_alert(scene).notified is not None
    scene.measure(STEADY, first=20)
    for _ in range(2):
        scene.look()
    assert actions(inbox) == ["opened", "resolved"]
    opened, resolved = inbox.received
    assert opened["thread"] == resolved["thread"]
    assert opened["key"] != resolved["key"]
    assert resolved["first_bad_commit"]["hash"] == hash_of(10)
    assert "the level is back" in resolved["why"]
    alert = the_alert(scene)
    assert alert.state is AlertState.RESOLVED
    assert (alert.events[-1].author, alert.events[-1].note) == (None, resolved["why"])


def test_one_that_is_only_partly_taken_back_stays_open(scene: Scene, inbox: Inbox) -> None:
    scene.measure([*STEADY, *SLOW, *(1.1 * value for value in STEADY)])
    scene.look()
    assert actions(inbox) == ["opened"]
    assert the_alert(scene).state is AlertState.OPEN


def test_what_was_over_before_anybody_looked_is_no_news(scene: Scene, inbox: Inbox) -> None:
    scene.measure([*STEADY, *SLOW, *STEADY])
    assert scene.look().messages == []
    assert inbox.received == []


def test_it_is_withdrawn_when_newer_runs_take_the_change_back_and_returns_with_it(scene: Scene, inbox: Inbox) -> None:
    scene.measure([*STEADY, *SLOW])
    scene.look()
    for _ in range(2):
        scene.measure(STEADY, first=10)  # again: it was the machine's bad day
    scene.look()
    assert actions(inbox) == ["opened", "resolved"]
    assert "no longer finds the change" in inbox.received[1]["why"]
    for _ in range(3):
        scene.measure(SLOW, first=10)
    scene.look()
    assert actions(inbox) == ["opened", "resolved", "reopened"]
    assert the_alert(scene).state is AlertState.OPEN


def test_a_later_measurement_that_narrows_the_range_is_an_update(scene: Scene, inbox: Inbox) -> None:
    scene.measure(STEADY)
    scene.measure(SLOW, first=100)
    scene.look()
    assert inbox.received[0]["range"] == [hash_of(9), hash_of(100)]
    scene.measure([1.0, 1.01], first=50)
    scene.measure([1.3, 1.31], first=52)
    scene.look()
    scene.look()
    assert actions(inbox) == ["opened", "updated"]
    update = inbox.received[1]
    assert (update["last_good_commit"]["hash"], update["first_bad_commit"]["hash"]) == (hash_of(51), hash_of(52))
    assert "The range is narrower" in update["news"][0]
    alert = the_alert(scene)
    assert (alert.previous_commit.hash, alert.commit.hash) == (hash_of(51), hash_of(52))
    assert alert.events[-1].kind is EventKind.UPDATED


def test_while_a_bisect_measures_in_between_a_change_stays_the_alert_s_own(scene: Scene, inbox: Inbox) -> None:
    scene.measure(STEADY)
    scene.measure(SLOW, first=100)
    scene.look()
    scene.measure([1.3], first=20)  # its first run is off, and the reported range ends there
    scene.look()
    scene.measure([1.0, 1.01, 0.99, 1.0, 1.01, 1.0, 0.99, 1.0], first=21)
    for _ in range(2):
        scene.measure([1.0], first=20)
    scene.look()
    alert = the_alert(scene)
    assert actions(inbox) == ["opened", "updated", "updated"]
    assert (alert.previous_commit.hash, alert.commit.hash) == (hash_of(28), hash_of(100))


def test_a_further_series_of_the_same_commits_joins_the_open_alert(scene: Scene, inbox: Inbox) -> None:
    scene.measure([*STEADY, *SLOW])
    scene.look()
    scene.measure([*STEADY, *SLOW], name=OTHER)
    scene.look()
    scene.look()
    assert actions(inbox) == ["opened", "updated"]
    assert "1 more series moved" in inbox.received[1]["news"][0]
    assert {row["benchmark"] for row in inbox.received[1]["regressions"]} == {"suite.Bench.track_latency", OTHER}
    assert len(the_alert(scene).series) == 2
    scene.measure(STEADY, first=20)
    scene.look()
    assert actions(inbox) == ["opened", "updated"]  # one of the two is back: the alert is not over
    scene.measure(STEADY, first=20, name=OTHER)
    scene.look()
    assert actions(inbox) == ["opened", "updated", "resolved"]


def test_another_machine_and_a_later_commit_have_alerts_of_their_own(scene: Scene, inbox: Inbox) -> None:
    scene.measure([*STEADY, *SLOW])
    scene.look()
    scene.measure([*STEADY, *SLOW], machine="other box")
    scene.measure(SLOWER, first=20)
    scene.look()
    assert sorted(actions(inbox)) == ["opened", "opened", "opened"]
    assert len({message["thread"] for message in inbox.received}) == 3


def test_another_magnitude_is_an_update(scene: Scene, inbox: Inbox) -> None:
    scene.measure([*STEADY, *SLOW])
    scene.look()
    for _ in range(3):
        scene.measure(SLOWER, first=10)
    scene.look()
    assert actions(inbox) == ["opened", "updated"]
    assert "The largest change is 2" in inbox.received[1]["news"][0]


@pytest.mark.parametrize("state", [AlertState.EXPECTED, AlertState.FALSE_ALARM])
def test_what_people_decided_is_respected(scene: Scene, inbox: Inbox, state: AlertState) -> None:
    scene.measure([*STEADY, *SLOW])
    scene.look()
    decide(scene, state)
    scene.measure([*STEADY, *SLOW], name=OTHER)  # joins silently
    scene.look()
    scene.measure(STEADY, first=20)
    scene.look()
    assert actions(inbox) == ["opened"]
    assert the_alert(scene).state is state
    assert len(the_alert(scene).series) == 2


def test_an_expected_change_that_surely_grows_beyond_it_returns(scene: Scene, inbox: Inbox) -> None:
    scene.measure([*STEADY, *SLOW])
    scene.look()
    decide(scene, AlertState.EXPECTED)
    for _ in range(3):
        scene.measure(SLOWER, first=10)
    scene.look()
    scene.look()
    assert actions(inbox) == ["opened", "reopened"]
    assert "surely beyond" in inbox.received[1]["news"][0]
    assert the_alert(scene).state is AlertState.OPEN


def test_what_a_person_resolved_does_not_return(scene: Scene, inbox: Inbox) -> None:
    scene.measure([*STEADY, *SLOW])
    scene.look()
    decide(scene, AlertState.RESOLVED)
    scene.measure(SLOW, first=20)
    scene.look()
    assert actions(inbox) == ["opened"]
    assert the_alert(scene).state is AlertState.RESOLVED


def test_a_regression_triaged_before_its_alert_sends_no_message(scene: Scene, inbox: Inbox) -> None:
    scene.measure([*STEADY, *SLOW])
    decide(scene, AlertState.ACKNOWLEDGED)
    scene.measure(STEADY, first=20)
    scene.look()
    assert inbox.received == []
    assert the_alert(scene).state is AlertState.RESOLVED


def test_no_number_of_series_and_alerts_is_too_many_for_the_database(
    sqlite_store: Store, asv: AsvResults, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite takes 32,766 parameters of a statement, PostgreSQL 65,535; here it takes 30."""
    monkeypatch.setattr(sys.modules[queries.series_changes.__module__], "_AT_ONCE", 20)
    scene = Scene(store=sqlite_store, asv=asv, to=(inbox.url,))
    names = [f"suite.Bench{number:02}.track_latency" for number in range(40)]
    for name in names:
        scene.measure([*STEADY, *SLOW], name=name, load=False)
    scene.asv.load(scene.store)

    def few(connection: sqlite3.Connection, _record: object) -> None:
        connection.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, 30)

    scene.store.engine.dispose()
    event.listen(scene.store.engine, "connect", few)
    scene.look()
    assert len(the_alert(scene).series) == 40
    for name in names:
        scene.measure(STEADY, first=20, name=name, load=False)
    event.remove(scene.store.engine, "connect", few)  # the import is another matter
    scene.store.engine.dispose()
    scene.asv.load(scene.store)
    scene.store.engine.dispose()
    event.listen(scene.store.engine, "connect", few)
    scene.look()
    assert actions(inbox) == ["opened", "resolved"]

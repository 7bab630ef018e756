"""People triage health alerts: states, notes, and programs that update them meanwhile. Both databases."""

from collections.abc import Callable
from typing import Any

import pytest

from warpwatch.dashboard.model.alert import (
    HEALTH_KINDS,
    AlertKind,
    AlertState,
    EventKind,
    HealthAlert,
    HealthFinding,
    ItemVersion,
)
from warpwatch.dashboard.store import Store
from warpwatch.dashboard.store.alert_opening import open_health_alert
from warpwatch.dashboard.store.alert_updates import update_health_alert
from warpwatch.dashboard.store.queries.alerts import alerts
from warpwatch.dashboard.store.retention import drop_project
from warpwatch.dashboard.store.triage import ChangedMeanwhileError, Decision, triage

SILENT = HealthFinding(
    kind=AlertKind.MISSING_DATA,
    subject="box",
    machine="box",
    kernel=None,
    summary="no results for 3 days",
    members=("box",),
    lines=("the newest is of Monday",),
)
WHO: dict[str, Any] = {"author": "Ada", "now_ms": 1_000}


@pytest.fixture
def silent(store: Store, timed_history: Callable[..., Any]) -> Store:
    timed_history([1.0, 1.0]).load(store)
    assert open_health_alert(store, "demo", SILENT, thread="t", messages={}, now_ms=1)
    return store


def the_alert(store: Store) -> HealthAlert:
    (found,) = alerts(store, "demo", kinds=HEALTH_KINDS)
    return found


def seen(alert: HealthAlert) -> list[ItemVersion]:
    return [ItemVersion(key=f"alert-{alert.id}", version=str(alert.version))]


def test_what_was_decided_is_kept_with_its_history(silent: Store) -> None:
    said = Decision(state=AlertState.ACKNOWLEDGED, note="on it", assignee="Bo", link="https://example.org/7")
    triage(silent, "demo", seen(the_alert(silent)), said, **WHO)
    alert = the_alert(silent)
    assert (alert.state, alert.assignee, alert.link) == (AlertState.ACKNOWLEDGED, "Bo", "https://example.org/7")
    assert [(e.kind, e.state, e.author, e.note) for e in alert.events] == [
        (EventKind.STATE, AlertState.OPEN, None, None),
        (EventKind.STATE, AlertState.ACKNOWLEDGED, "Ada", "on it"),
        (EventKind.ASSIGNED, AlertState.ACKNOWLEDGED, "Ada", None),
        (EventKind.LINKED, AlertState.ACKNOWLEDGED, "Ada", None),
    ]
    drop_project(silent, "demo")


def test_the_later_of_two_reads_what_the_other_did(silent: Store) -> None:
    as_seen = seen(the_alert(silent))
    triage(silent, "demo", as_seen, Decision(state=AlertState.EXPECTED), **WHO)
    with pytest.raises(ChangedMeanwhileError, match=r"Ada set it to “expected” since you saw it"):
        triage(silent, "demo", as_seen, Decision(note="late"), **WHO)
    assert the_alert(silent).events[-1].note is None


def test_one_that_is_over_is_not_decided_about_and_a_program_gives_way_to_a_person(silent: Store) -> None:
    as_read = the_alert(silent)
    triage(silent, "demo", seen(as_read), Decision(note="looking"), **WHO)
    assert not update_health_alert(silent, as_read, None, messages={}, now_ms=3)
    assert update_health_alert(silent, the_alert(silent), None, messages={}, now_ms=4)
    alert = the_alert(silent)
    assert (alert.state, alert.resolved is None) == (AlertState.RESOLVED, False)
    with pytest.raises(ChangedMeanwhileError, match=r"A program set it to “resolved”"):
        triage(silent, "demo", seen(alert), Decision(note="late"), **WHO)


def test_a_person_cannot_resolve_it_and_it_has_no_commit(silent: Store) -> None:
    for wrong in (Decision(state=AlertState.RESOLVED), Decision(move=1)):
        with pytest.raises(ValueError, match="resolves by itself"):
            triage(silent, "demo", seen(the_alert(silent)), wrong, **WHO)
    for other in (
        ItemVersion(key="alert-99", version="1"),
        ItemVersion(key="alert-1", version="9"),
        ItemVersion(key="alert", version="1"),
    ):
        with pytest.raises(ChangedMeanwhileError):
            triage(silent, "demo", [other], Decision(note="x"), **WHO)

"""A bisect's result in the store: a note, the culprit of its alerts, one triage item as before. Both databases."""

import pytest

from tests.asv_results import AsvResults, hash_of
from tests.stored import new_regressions
from warpwatch.dashboard.model.alert import AlertState, EventKind, TriageFilter, TriageItem
from warpwatch.dashboard.store import Store, queries
from warpwatch.dashboard.store.alert_opening import open_regression_alert
from warpwatch.dashboard.store.bisect_results import AUTHOR, BisectResult, Culprit, bisected_alerts, record_bisect
from warpwatch.dashboard.store.notes import NothingToAnnotateError, annotations
from warpwatch.dashboard.store.triage import Decision, triage

NAME = "suite.Bench.track_latency"
FIRST_BAD = 30


@pytest.fixture
def alerted(store: Store, asv: AsvResults) -> AsvResults:
    """Ten good commits, thirty that were not measured, ten bad ones, and an open alert of that."""
    asv.benchmark(NAME)
    _measure(asv, store, *range(10), *range(40, 50))
    assert open_regression_alert(store, new_regressions(store, "demo")[0], messages={}, now_ms=5) is not None
    return asv


def _measure(asv: AsvResults, store: Store, *numbers: int) -> None:
    for number in numbers:
        value = (1.0 if number < FIRST_BAD else 2.0) * (1 + 0.005 * (number % 3))
        asv.commit(number, {NAME: asv.row([value], started_at=number + 1, spread=0.002)})
    asv.load(store)


def _item(store: Store) -> TriageItem:
    (found,) = queries.triage_items(store, "demo", TriageFilter()).items
    return found


def _bisected(store: Store, *, confidence: str = "99.4 %", culprit: int | None = FIRST_BAD) -> BisectResult:
    (series,) = queries.find_series(store, "demo").series
    named = Culprit(commit=hash_of(culprit), previous=hash_of(culprit - 1), confidence=confidence) if culprit else None
    return BisectResult(
        series=series.key, good=hash_of(9), bad=hash_of(40), summary=f"{confidence} sure", culprit=named
    )


def test_the_item_names_the_culprit_and_stays_one(store: Store, alerted: AsvResults) -> None:
    assert _item(store).commit.hash == hash_of(40)
    # More good ones than a changepoint may wander by itself.
    _measure(alerted, store, 15, 20, 22, 24, 25, 26, 27, 28, 29, FIRST_BAD, 35)
    (alert,) = record_bisect(store, "demo", _bisected(store), now_ms=7)
    item = _item(store)
    assert item.alert is not None
    assert (item.alert.id, item.alert.state, item.alert.version) == (alert, AlertState.OPEN, 2)
    assert item.alert.stated is not None
    assert (item.alert.stated.commit.hash, item.alert.stated.previous_commit.hash) == (hash_of(30), hash_of(29))
    assert item.alert.stated.author == "warpwatch bisect (99.4 %)"
    assert item.regressions[0].change.commit.hash == hash_of(30)
    event = item.alert.events[-1]
    assert (event.kind, event.author, event.detail, event.note) == (
        EventKind.MOVED,
        AUTHOR,
        hash_of(30),
        "99.4 % sure",
    )
    assert new_regressions(store, "demo") == ()
    (note,) = annotations(store, "demo", commit=hash_of(30))
    assert (note.author, note.text) == (AUTHOR, "99.4 % sure")
    assert bisected_alerts(store, [alert]) == {alert}

    record_bisect(store, "demo", _bisected(store), now_ms=8)  # the same again says nothing new
    assert _item(store) == item
    assert len(annotations(store, "demo", commit=hash_of(30))) == 1


def test_what_a_person_stated_stays(store: Store, alerted: AsvResults) -> None:
    triage(store, "demo", [_item(store).seen], Decision(move=1), author="Ada", now_ms=6)
    _measure(alerted, store, 29, FIRST_BAD)
    record_bisect(store, "demo", _bisected(store), now_ms=7)
    alert = _item(store).alert
    assert alert is not None
    assert alert.stated is not None
    assert (alert.stated.author, alert.stated.commit.hash) == ("Ada", hash_of(41))
    assert (alert.events[-1].kind, alert.events[-1].note) == (EventKind.NOTED, "99.4 % sure")


def test_a_bisect_that_found_nothing_is_noted_and_blames_no_commit(store: Store, alerted: AsvResults) -> None:
    (alert,) = record_bisect(store, "demo", _bisected(store, culprit=None), now_ms=7)
    item = _item(store)
    assert item.alert is not None
    assert item.alert.stated is None
    assert bisected_alerts(store, [alert]) == {alert}
    assert annotations(store, "demo") == ()


def test_a_culprit_without_results_is_refused(store: Store, alerted: AsvResults) -> None:
    with pytest.raises(NothingToAnnotateError, match="no commit"):
        record_bisect(store, "demo", _bisected(store), now_ms=7)
    assert _item(store).alert.stated is None

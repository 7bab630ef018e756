"""Steps below the limits that a project states: stored and shown, and no alert is sent."""

from datetime import UTC, datetime

import pytest
from sqlalchemy import update

from tests.asv_results import AsvResults
from tests.stored import new_regressions, regressions_by_alert
from warpwatch.dashboard.analysis.series_analysis import analyse
from warpwatch.dashboard.model.alert import TriageFilter, TriageState
from warpwatch.dashboard.model.thresholds import StatedLimits
from warpwatch.dashboard.model.verdict import ChangeKind, Verdict
from warpwatch.dashboard.store import Store, queries, schema
from warpwatch.dashboard.store.alert_opening import open_regression_alert
from warpwatch.dashboard.store.policy import state_limits

BENCH, OTHER = "suite.Bench.track_latency", "suite.Other.track_latency"
COMMITS, STEP = 24, 18
SLOWER = {BENCH: 1.05, OTHER: 1.3}
ALL = TriageFilter(states=tuple(TriageState))


@pytest.fixture
def moved(store: Store, asv: AsvResults) -> Store:
    """Two series, slower from one commit on: by 5 % and by 30 %."""
    for name in SLOWER:
        asv.benchmark(name)
    for number in range(COMMITS):
        wobble = 1 + number % 3 / 1000
        asv.commit(
            number,
            {
                name: asv.row(
                    [100e-6 * wobble * (slower if number >= STEP else 1)], started_at=number + 1, spread=0.002
                )
                for name, slower in SLOWER.items()
            },
        )
    asv.load(store)
    analyse(store)
    return store


def _state(store: Store, *rules: dict[str, object], day: int = 1, **general: object) -> None:
    stated = StatedLimits.model_validate(
        {"rules": list(rules), "source": "warpwatch.toml", "committed": datetime(2026, 1, day, tzinfo=UTC), **general}
    )
    assert state_limits(store, "demo", stated, now_ms=1_800_000_000_000)


def _verdicts(store: Store) -> dict[str, Verdict]:
    return {row.series.benchmark: row.verdict for row in queries.overview(store, "demo")}


def _regressed(store: Store) -> set[str]:
    return {one.series.benchmark for group in queries.regressions(store, "demo") for one in group.regressions}


def test_what_is_below_its_limit_is_no_regression_anywhere(moved: Store) -> None:
    assert _verdicts(moved) == dict.fromkeys(SLOWER, Verdict.REGRESSED)
    assert _regressed(moved) == set(SLOWER)
    _state(moved, {"benchmark": "*.Bench.*", "threshold": 0.1})
    assert _verdicts(moved) == {BENCH: Verdict.UNCHANGED, OTHER: Verdict.REGRESSED}
    assert _regressed(moved) == {OTHER}
    listed = queries.triage_items(moved, "demo", ALL)
    assert [[one.series.benchmark for one in item.regressions] for item in listed.items] == [[OTHER]]
    assert listed.below_limits == 1
    (steps,) = queries.steps_of_commits(moved, "demo").values()
    assert (steps.worse, steps.better) == (1, 0)
    new = [one.series.benchmark for group in new_regressions(moved, "demo") for one in group.regressions]
    assert new == [OTHER]
    keys = {one.key for one in queries.find_series(moved, "demo").series}
    assert set(queries.series_changes(moved, keys)) == keys  # the histories keep what was found
    kernel = queries.kernel(moved, "demo", BENCH, machine=None, metric=None, implementation=None, commits=10)
    assert kernel is not None
    assert [row.verdict for row in kernel.rows] == [Verdict.UNCHANGED]
    key = next(one.key for one in queries.find_series(moved, "demo", search="Bench").series)
    assert [row.verdict for row in queries.siblings(moved, key)] == [Verdict.UNCHANGED]


def test_a_step_below_its_limit_is_no_part_of_what_a_month_brought(moved: Store) -> None:
    def brought() -> dict[str, float]:
        return {each.row.series.benchmark: round(each.month, 2) for each in queries.standings(moved, "demo")}

    assert brought() == {BENCH: 0.05, OTHER: 0.3}
    _state(moved, threshold=0.5)
    assert brought() == {BENCH: 0.0, OTHER: 0.0}


def test_steps_that_are_not_significant_follow_the_thresholds_too(moved: Store) -> None:
    with moved.write("demo") as connection:
        connection.execute(update(schema.changepoint).values(kind=ChangeKind.NOT_SIGNIFICANT.value, q_value=0.1))
    assert len(new_regressions(moved, "demo", max_false_discovery_rate=0.2)) == 1
    _state(moved, threshold=0.5)
    assert new_regressions(moved, "demo", max_false_discovery_rate=0.2) == ()
    listed = queries.triage_items(moved, "demo", ALL)
    assert (listed.items, listed.below_limits) == ((), 0)  # a step of doubtful significance is filtered too


def test_a_floor_is_a_limit_too_and_what_states_none_counts_from_nothing_on(moved: Store) -> None:
    _state(moved, floor="20 us")
    assert _regressed(moved) == {OTHER}
    _state(moved, {"metric": "registers", "blocks": False}, day=2)
    assert _regressed(moved) == set(SLOWER)
    assert queries.triage_items(moved, "demo", ALL).below_limits == 0


def test_an_alert_keeps_what_it_holds_whatever_is_stated_later(moved: Store) -> None:
    for group in new_regressions(moved, "demo"):
        assert open_regression_alert(moved, group, messages={}, now_ms=1) is not None
    _state(moved, threshold=0.5)
    assert {
        one.series.benchmark for its in regressions_by_alert(moved, "demo").of_alerts.values() for one in its
    } == set(SLOWER)
    listed = queries.triage_items(moved, "demo", ALL)
    assert {one.series.benchmark for item in listed.items for one in item.regressions} == set(SLOWER)
    assert listed.below_limits == 0

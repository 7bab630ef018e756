"""When a machine's data is overdue, and which of its series it left behind."""

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.dashboard.suite_results import SUITE, Suite
from warpwatch.dashboard.model.overview import RowState
from warpwatch.dashboard.statistics.arrival import LEAST_PATIENCE_S, SESSION_GAP_S, arrival
from warpwatch.dashboard.store import Store, queries

HOUR_S, DAY_S = 3600.0, 86400.0

runs = st.lists(st.tuples(st.integers(0, 10**7).map(float), st.integers(0, 5)), min_size=1, max_size=60)


def test_a_machine_that_measures_every_week_is_overdue_after_three() -> None:
    expectation = arrival(
        [(week * 7 * DAY_S + minute * 60, f"{week} {minute // 5}") for week in range(6) for minute in range(20)]
    )
    assert expectation is not None
    assert expectation.usual_pause_s == pytest.approx(7 * DAY_S, rel=0.01)
    assert not expectation.is_overdue(expectation.newest_s + 20 * DAY_S)
    assert expectation.is_overdue(expectation.newest_s + 21.1 * DAY_S)


def test_a_machine_that_measures_every_few_hours_has_two_days() -> None:
    expectation = arrival([(number * 4 * HOUR_S, number) for number in range(30)])
    assert expectation is not None
    assert expectation.patience_s == LEAST_PATIENCE_S
    assert arrival([]) is None


@given(runs)
def test_the_longest_pause_is_the_longest_whatever_the_order(measured: list[tuple[float, int]]) -> None:
    expectation = arrival(measured)
    assert expectation is not None
    # A slow, obvious twin: walk the runs, a visit ends where the commit changes.
    ordered, starts = sorted(measured, key=lambda run: run[0]), [sorted(measured, key=lambda run: run[0])[0][0]]
    for before, after in itertools.pairwise(ordered):
        if after[1] != before[1]:
            starts.append(after[0])
    pauses = [b - a for a, b in itertools.pairwise(starts)]
    assert expectation.visits == len(starts)
    assert expectation.newest_s == max(at for at, _ in measured)
    assert (expectation.longest.length_s if expectation.longest else None) == (max(pauses) if pauses else None)
    usual = sorted(pause for pause in pauses[-50:] if pause >= SESSION_GAP_S)
    if usual:
        assert usual[0] <= (expectation.usual_pause_s or 0.0) <= usual[-1]
    else:
        assert expectation.usual_pause_s is None
    assert not expectation.is_overdue(expectation.newest_s + LEAST_PATIENCE_S)


@given(runs, st.integers(-(10**6), 10**6))
def test_nothing_but_the_moments_shifts_with_the_clock(measured: list[tuple[float, int]], by: int) -> None:
    earlier, later = arrival(measured), arrival([(at + by, commit) for at, commit in measured])
    assert earlier is not None
    assert later is not None
    assert (later.newest_s, later.visits, later.usual_pause_s) == (
        earlier.newest_s + by,
        earlier.visits,
        earlier.usual_pause_s,
    )


def test_a_series_that_its_machine_leaves_out_has_stopped(store: Store, asv: Any) -> None:
    history = Suite(asv, workloads=("w1", "w2"))
    for number in range(6):
        history.commit(number)
    history.workloads = ("w1",)
    for number in range(6, 9):
        history.commit(number)
    asv.benchmark(f"{SUITE}.track_latency", workload=["'w1'", "'w2'"], implementation=["'warpwatch'", "'eager'"])
    asv.load(store)
    state_of = {each.row.series.workload: each.state for each in queries.standings(store, "demo")}
    assert state_of == {"w1": RowState.UNCHANGED, "w2": RowState.UNCHANGED}  # three commits without it are no news yet
    for number in range(9, 25):
        history.commit(number)
    asv.benchmark(f"{SUITE}.track_latency", workload=["'w1'", "'w2'"], implementation=["'warpwatch'", "'eager'"])
    asv.load(store)
    state_of = {each.row.series.workload: each.state for each in queries.standings(store, "demo")}
    assert state_of == {"w1": RowState.UNCHANGED, "w2": RowState.STOPPED}
    assert queries.arrivals(store, "demo")["box"].visits == 25
    assert queries.arrivals(store, "nobody") == {}

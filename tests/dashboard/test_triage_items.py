"""Two physical GPUs under one machine's name are two machines to every judgement, where references are too few."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.dashboard.suite_results import Suite
from tests.stored import worse_steps
from warpwatch.dashboard.analysis.compare_commits import check
from warpwatch.dashboard.model.comparison import Outcome
from warpwatch.dashboard.model.metric import metric
from warpwatch.dashboard.model.verdict import Verdict
from warpwatch.dashboard.statistics.comparison import RunValue
from warpwatch.dashboard.statistics.detection import detect
from warpwatch.dashboard.store import Store, queries

FIRST, SECOND = "GPU-aaaaaaaa-1", "GPU-bbbbbbbb-2"
EVERYTHING = dict.fromkeys(("warpwatch", "eager", "cuda-fp32-triad-1m", "cuda-fp16-matmul-8192"), 1.3)


@pytest.fixture
def moved_house(asv: Any) -> Suite:
    """Ten commits on one card, then ten on another that is 30 % slower in everything."""
    history = Suite(asv)
    for number in range(20):
        history.commit(number, EVERYTHING if number >= 10 else {}, card=SECOND if number >= 10 else FIRST)
    return history


def test_another_card_is_no_regression(store: Store, moved_house: Suite) -> None:
    moved_house.asv.load(store)
    assert worse_steps(store, "demo") == ()
    (row,) = queries.overview(store, "demo")
    assert (row.verdict, row.change_is_step) == (Verdict.UNCHANGED, False)


def test_a_check_across_gpus_is_inconclusive_and_says_why(sqlite_store: Store, moved_house: Suite) -> None:
    moved_house.asv.load(sqlite_store)
    base, head = (queries.find_commit(sqlite_store, "demo", f"{number:08x}") for number in (9, 10))
    assert base is not None
    assert head is not None
    found = check(sqlite_store, "demo", base, head, threshold=0.02)
    (row,) = found.rows
    assert (row.verdict, found.outcome, found.drifts) == (Verdict.INCONCLUSIVE, Outcome.INCONCLUSIVE, ())
    assert row.reason == (
        "not enough reference measurements (3 of 20): base was measured on GPU-aaaaaaaa and head on GPU-bbbbbbbb;"
        " measure both commits on one GPU"
    )
    assert (row.base, row.head) == (pytest.approx(1e-4, rel=0.01), pytest.approx(1.3e-4, rel=0.01))


def test_of_a_commit_measured_on_both_cards_the_runs_of_the_shared_one_count(sqlite_store: Store, asv: Any) -> None:
    history = Suite(asv)
    for number in range(10):
        history.commit(number, card=FIRST)
    history.commit(10, EVERYTHING, card=SECOND)
    asv.load(sqlite_store)
    history.commit(10, card=FIRST, hour=5)
    asv.load(sqlite_store)
    base, head = (queries.find_commit(sqlite_store, "demo", f"{number:08x}") for number in (9, 10))
    assert base is not None
    assert head is not None
    (row,) = check(sqlite_store, "demo", base, head, threshold=0.02).rows
    assert (row.verdict, row.estimate and row.estimate.head_runs) == (Verdict.UNCHANGED, 1)


def test_a_step_on_one_gpu_is_reported_though_another_measured_between(store: Store, asv: Any) -> None:
    history = Suite(asv)
    for number in range(24):
        slow = {"warpwatch": 1.2} if number >= 12 else {}
        between = number % 6 == 5
        moved = {name: factor * slow.get(name, 1.0) for name, factor in EVERYTHING.items()} if between else slow
        history.commit(number, moved, card=SECOND if between else FIRST)
    asv.load(store)
    (group,) = queries.regressions(store, "demo")
    (one,) = group.regressions
    # The eleventh commit was the other card's, so the last good one is the one before.
    assert (one.change.commit.position, one.change.previous_commit.position) == (12, 10)
    assert one.change.magnitude == pytest.approx(0.2, abs=0.01)


def test_what_is_exact_does_not_depend_on_the_card() -> None:
    runs = [[RunValue(value=value, gpu=card)] for value, card in ((1.0, FIRST), (1.0, FIRST), (2.0, SECOND))]
    assert [found.index for found in detect(runs, metric("kernels_launched", "launches")).changes] == [2]
    assert detect(runs, metric("latency", "seconds")).changes == ()


def test_results_that_name_no_card_are_one_machines(store: Store, timed_history: Callable[..., Any]) -> None:
    timed_history([1.0] * 10 + [1.5] * 10).load(store)
    assert len(queries.regressions(store, "demo")) == 1

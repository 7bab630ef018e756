"""Canaries separate the machine's shift from a kernel's, and are never blamed themselves."""

from typing import Any

import pytest

from tests.dashboard.suite_results import MATMUL, TRIAD, Suite
from tests.stored import new_regressions, stored_history, worse_steps
from warpwatch.dashboard.analysis.compare_commits import check
from warpwatch.dashboard.model.comparison import Comparison
from warpwatch.dashboard.model.verdict import Verdict
from warpwatch.dashboard.store import Store, queries
from warpwatch.dashboard.text.comparison_report import as_table


def _history(asv: Any, last: dict[str, float], commits: int = 12) -> Suite:
    history = Suite(asv, workloads=("w1", "w2", "w3"))
    for number in range(commits - 1):
        history.commit(number)
    history.commit(commits - 1, last)
    return history


def _check(store: Store, asv: Any) -> Comparison:
    asv.load(store)
    newest, before = queries.commits(store, "demo", limit=2)
    return check(store, "demo", before, newest, threshold=0.02)


def _verdicts(found: Comparison) -> set[Verdict]:
    return {row.verdict for row in found.rows}


def test_a_machine_that_slowed_is_detected_by_its_canaries_and_taken_off(store: Store, asv: Any) -> None:
    _history(asv, {"warpwatch": 1.05, "eager": 1.05, TRIAD: 1.05, MATMUL: 1.05})
    found = _check(store, asv)
    (drift,) = found.drifts
    assert (drift.change, drift.controls) == (pytest.approx(0.05, abs=0.004), 5)
    assert {canary.workload for canary in drift.canaries} == {TRIAD, MATMUL}
    assert _verdicts(found) == {Verdict.UNCHANGED}
    assert "drifted by +5" in as_table(found)


def test_canaries_that_stand_still_overrule_rivals_that_all_moved(sqlite_store: Store, asv: Any) -> None:
    """A new library makes every baseline faster; the machine did not move, so nothing is taken off."""
    _history(asv, {"eager": 0.9})
    found = _check(sqlite_store, asv)
    assert found.drifts == ()
    assert _verdicts(found) == {Verdict.UNCHANGED}


def test_a_canary_that_moves_alone_withholds_the_verdicts_that_it_may_explain(sqlite_store: Store, asv: Any) -> None:
    """The math units slowed by 6 %, memory did not: a kernel 6 % slower may be either's fault."""
    _history(asv, {"warpwatch": 1.06, MATMUL: 1.06})
    found = _check(sqlite_store, asv)
    (drift,) = found.drifts
    assert (drift.change, [canary.workload for canary in drift.canaries]) == (0.0, [MATMUL])
    assert _verdicts(found) == {Verdict.INCONCLUSIVE}
    assert all(row.reason is not None and row.reason.startswith("the machine moved: canary") for row in found.rows)
    assert "its controls disagree" in as_table(found)


@pytest.mark.parametrize(("own", "verdict"), [(1.4, Verdict.REGRESSED), (0.7, Verdict.IMPROVED)])
def test_a_change_that_no_canary_explains_is_reported(
    sqlite_store: Store, asv: Any, own: float, verdict: Verdict
) -> None:
    _history(asv, {"warpwatch": own, MATMUL: 1.06})
    assert _verdicts(_check(sqlite_store, asv)) == {verdict}


def test_a_canary_that_moves_is_never_a_regression_an_alert_or_a_row(store: Store, asv: Any) -> None:
    history = _history(asv, {TRIAD: 1.5}, commits=12)
    for number in range(12, 20):
        history.commit(number, {TRIAD: 1.5})
    asv.load(store)
    assert worse_steps(store, "demo") == ()
    assert new_regressions(store, "demo") == ()
    assert {row.series.implementation for row in queries.overview(store, "demo")} == {"warpwatch"}
    assert {row.implementation for row in queries.report(store)} == {"warpwatch", "eager"}
    assert {point.implementation for roof in queries.rooflines(store, "demo") for point in roof.points} <= {
        "warpwatch",
        "eager",
    }


def test_canaries_that_asv_did_not_run_come_from_the_context(store: Store, asv: Any) -> None:
    history = Suite(asv)
    for number in range(4):
        history.commit(number, asked_for_canaries=number != 1)
    asv.load(store)
    (canary, _) = queries.canaries(store, "demo")["box"]
    stored = stored_history(store, canary.series.key)
    assert stored is not None
    assert [(point.run, point.q25 is not None) for point in stored.points] == [
        ("run-0-0", True),
        ("run-1-0", False),
        ("run-2-0", True),
        ("run-3-0", True),
    ]
    assert stored.series.listed
    (ours,) = queries.overview(store, "demo")
    ours_history = stored_history(store, ours.series.key)
    assert ours_history is not None
    assert [len(each.points) for each in ours_history.canaries] == [4, 4]
    again = asv.load(store)
    assert again.points == 0


def test_host_overhead_takes_its_rivals_from_the_other_suites(sqlite_store: Store, asv: Any) -> None:
    """It is measured by operator, without workloads that could say who is a rival."""
    Suite(asv).commit(0)
    name = "benchmarks.host_overhead.HostOverhead.track_host_overhead"
    params = [["'rope'", "'linear'"], ["'warpwatch'", "'eager'"]]
    asv.benchmark(name, operator=params[0], implementation=params[1])
    asv.commit(1, {name: asv.row([5e-6, 9e-6, 6e-6, 3e-6], params, started_at=5)})
    asv.load(sqlite_store)
    shown = {
        row.series.case: row
        for row in queries.overview(sqlite_store, "demo")
        if row.series.metric.name == "host_overhead"
    }
    assert set(shown) == {("rope",), ("linear",)}
    ratios = {case: row.baseline.ratio for case, row in shown.items() if row.baseline}
    assert ratios == {("rope",): pytest.approx(1.8), ("linear",): pytest.approx(0.5)}
    history = stored_history(sqlite_store, shown[("rope",)].series.key)
    assert history is not None
    assert [other.points[0].value for other in history.others] == [9e-6]

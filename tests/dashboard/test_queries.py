"""What pages ask of the store that importing alone does not show. On both databases."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.stored import stored_history, worse_steps
from warpwatch.dashboard.model.machine import Ceilings, HardwareLimits, bound_by_memory, bound_s, speed_of_light
from warpwatch.dashboard.model.series import Workload
from warpwatch.dashboard.model.verdict import Verdict
from warpwatch.dashboard.store import Store, queries

BENCH = "suite.Bench.track_latency"
STEPPED = [1.0, 1.01, 0.99, 1.0, 1.01, 0.99, 1.0, 1.01, 0.99, 1.0] + [1.5, 1.51, 1.49, 1.5, 1.51] * 2


def test_a_regression_is_on_every_page_that_lists_it(store: Store, timed_history: Callable[..., Any]) -> None:
    timed_history(STEPPED).load(store)
    (row,) = queries.overview(store, "demo")
    assert (row.verdict, row.change_is_step) == (Verdict.REGRESSED, True)
    assert row.change == pytest.approx(0.5, abs=0.01)
    assert row.change_commit is not None
    assert row.change_commit.position == 10
    assert row.sparkline == pytest.approx(STEPPED)
    history = stored_history(store, row.series.key)
    assert history is not None
    (change,) = history.changes
    assert (change.index, change.commit.position, change.previous_commit.position, change.is_worse) == (10, 10, 9, True)
    (group,) = queries.regressions(store, "demo")
    assert (group.machine, group.commit, group.previous_commit) == ("box", change.commit, change.previous_commit)
    page = queries.commit_page(store, "demo", change.commit.hash[:8])
    assert page is not None
    assert [one.series.key for one in page.changes] == [row.series.key]
    assert (page.points[0].value, page.points[0].previous) == (1.5, 1.0)
    assert page.older is not None
    assert page.newer is not None
    assert (page.older.position, page.newer.position) == (9, 11)


def test_an_improvement_is_no_regression(store: Store, timed_history: Callable[..., Any]) -> None:
    timed_history(STEPPED[::-1]).load(store)
    assert queries.regressions(store, "demo") == ()
    assert queries.overview(store, "demo")[0].verdict is Verdict.IMPROVED


def test_for_bandwidth_less_is_worse(store: Store, asv: Any) -> None:
    asv.benchmark("suite.Bench.track_bandwidth", unit="GB/s")
    for number, value in enumerate(STEPPED):
        asv.commit(number, {"suite.Bench.track_bandwidth": asv.row([1 / value], started_at=number + 1)})
    asv.load(store)
    assert queries.regressions(store, "demo") == ()  # not judged by default: latency says it already
    (step,) = worse_steps(store, "demo")
    assert step.change.magnitude == pytest.approx(-1 / 3, abs=0.01)


def test_a_rerun_counts_as_one_commit_with_two_runs(store: Store, asv: Any) -> None:
    for started, value in ((1, 1.0), (2, 3.0)):
        asv.commit(1, {BENCH: asv.row([value], started_at=started, spread=0.01)})
        asv.load(store)
    (row,) = queries.overview(store, "demo")
    assert (row.value, row.sparkline) == (2.0, (2.0,))
    page = queries.commit_page(store, "demo", "00000001")
    assert page is not None
    assert (page.points[0].value, page.points[0].runs) == (2.0, 2)


def test_a_search_finds_words_in_any_field_and_takes_signs_as_they_are(store: Store, asv: Any) -> None:
    asv.benchmark(BENCH, shape=["'B1_S512'", "'B1xS512'", "'100%'"])
    asv.commit(1, {BENCH: asv.row([1.0, 2.0, 3.0], [["'B1_S512'", "'B1xS512'", "'100%'"]])}, machine="Tesla T4")
    asv.load(store)

    def found(search: str) -> set[str]:
        return {series.parameters[0][1] for series in queries.find_series(store, "demo", search=search).series}

    assert found("") == {"B1_S512", "B1xS512", "100%"}
    assert found("b1_s512") == {"B1_S512"}  # _ is a letter here, not SQL's any letter
    assert found("%") == {"100%"}
    assert found("tesla bench 100") == {"100%"}
    assert found("tesla cuda") == set()
    page = queries.find_series(store, "demo", limit=1, offset=1)
    assert (page.total, len(page.series)) == (3, 1)
    assert page.latest[page.series[0].key] is not None


def test_unknown_names_give_nothing(store: Store) -> None:
    assert queries.project(store, "none") is None
    assert queries.machines(store, "none") == ()
    assert queries.overview(store, "none") == ()
    assert queries.find_series(store, "none").total == 0
    assert queries.series(store, "0" * 16) is None
    assert stored_history(store, "0" * 16) is None
    assert queries.regressions(store, "none") == ()
    assert queries.commit_page(store, "none", "abc") is None
    assert queries.rooflines(store, "none") == ()
    assert queries.report(store, project="none") == ()


def test_a_prefix_of_several_commits_is_ambiguous_and_an_empty_one_is_none(
    store: Store, timed_history: Callable[..., Any]
) -> None:
    timed_history([1.0, 2.0]).load(store)
    with pytest.raises(queries.AmbiguousCommitError, match="several commits"):
        queries.find_commit(store, "demo", "0000000")
    assert queries.find_commit(store, "demo", "") is None
    assert queries.find_commit(store, "demo", "%") is None


CEILINGS = Ceilings(name="T4", source="datasheet", bandwidth_bps=320e9, flops={"fp16": 65e12})


def _workload(flops: float, size: float, dtype: str = "fp16") -> Workload:
    return Workload(
        benchmark="b",
        operator="o",
        name="w",
        dtype=dtype,
        flops=flops,
        bytes=size,
        parameters={},
        kernels=(),
        baselines=(),
    )


def test_the_bound_is_the_slower_of_memory_and_arithmetic() -> None:
    assert bound_s(_workload(65e12, 320e9), CEILINGS) == pytest.approx(1.0)
    assert bound_s(_workload(130e12, 320e9), CEILINGS) == pytest.approx(2.0)
    assert bound_s(_workload(65e12, 960e9), CEILINGS) == pytest.approx(3.0)


def test_each_limit_has_its_share_of_the_speed_of_light() -> None:
    measured = replace(CEILINGS, source="measured", bandwidth_bps=160e9)
    workload = _workload(1.0, 320e9)
    shares = [
        (found.of_peak, found.of_ceiling, found.share, found.of) if found else None
        for peaks, ceilings in ((CEILINGS, measured), (CEILINGS, None), (None, measured), (None, None))
        for found in [speed_of_light(workload, HardwareLimits(peaks=peaks, measured=ceilings), 4.0)]
    ]
    assert shares == [
        (0.25, 0.5, 0.25, "of peak"),
        (0.25, None, 0.25, "of peak"),
        (None, 0.5, 0.5, "of ceiling"),
        None,
    ]
    assert speed_of_light(_workload(1.0, 1.0, "fp64"), HardwareLimits(peaks=CEILINGS, measured=None), 1.0) is None


def test_a_dtype_without_a_peak_has_no_bound_unless_nothing_is_computed() -> None:
    assert bound_s(_workload(1.0, 320e9, "fp64"), CEILINGS) is None
    assert bound_s(_workload(0.0, 320e9, "fp64"), CEILINGS) == pytest.approx(1.0)


def test_an_adopted_benchmark_whose_cost_is_not_known_is_bound_by_nothing() -> None:
    limits = HardwareLimits(peaks=CEILINGS, measured=None)
    assert bound_s(_workload(0.0, 0.0), CEILINGS) is None
    assert bound_by_memory(_workload(0.0, 0.0), limits) is None
    assert bound_by_memory(_workload(1.0, 320e9), limits) is True

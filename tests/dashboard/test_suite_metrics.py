"""The metrics of one measurement: one row on the overview with the rest on it, and alarms from those with verdicts."""

from typing import Any

import pytest

from tests.asv_results import hash_of
from tests.stored import new_regressions, worse_steps
from warpwatch.dashboard.analysis.compare_commits import check
from warpwatch.dashboard.model.verdict import Verdict
from warpwatch.dashboard.store import Store, queries

SUITE = "benchmarks.rope.Rope"
UNITS = {
    "latency": "seconds",
    "warm_latency": "seconds",
    "cycles": "cycles",
    "bandwidth": "GB/s",
    "sol_peak": "share of peak",
    "peak_memory": "bytes",
    "energy": "joules",
    "kernels_launched": "launches",
}
QUIET = {
    "latency": 1e-4,
    "warm_latency": 8e-5,
    "cycles": 198_000.0,
    "bandwidth": 2000.0,
    "sol_peak": 0.5,
    "peak_memory": 0.0,
    "energy": 0.04,
    "kernels_launched": 1.0,
}
PARAMS = [["'w1'"], ["'warpwatch'"]]


def _write(asv: Any, commits: list[dict[str, float]]) -> None:
    """A commit for each mapping of what differs from QUIET; times scatter by a thousandth."""
    for name, unit in UNITS.items():
        asv.benchmark(f"{SUITE}.track_{name}", unit=unit, workload=PARAMS[0], implementation=PARAMS[1])
    asv.benchmark("benchmarks.compiled_code.CompiledCode.track_compile_time", unit="seconds", kernel=["'k'"])
    for number, moved in enumerate(commits):
        values = QUIET | {"compile_time": 20.0} | moved
        rows = {
            f"{SUITE}.track_{name}": asv.row(
                [values[name] * (1 + 0.001 * (number % 3) * (unit == "seconds"))], PARAMS, started_at=number + 1
            )
            for name, unit in UNITS.items()
        }
        rows["benchmarks.compiled_code.CompiledCode.track_compile_time"] = asv.row(
            [values["compile_time"]], [["'k'"]], started_at=number + 1
        )
        asv.commit(number, rows)


def test_a_workload_has_one_row_with_its_latency_and_its_page_leads_to_the_rest(sqlite_store: Store, asv: Any) -> None:
    _write(asv, [{}] * 4)
    asv.load(sqlite_store)
    (row,) = queries.overview(sqlite_store, "demo")
    assert (row.series.metric.name, row.other_metrics) == ("latency", ())
    names = [other.series.metric.name for other in queries.siblings(sqlite_store, row.series.key)]
    assert names[0] == "latency"
    assert set(names) == set(UNITS)
    assert set(names[:4]) == {"latency", "warm_latency", "peak_memory", "kernels_launched"}


def test_a_launch_and_a_byte_more_are_regressions_where_latency_stood_still(sqlite_store: Store, asv: Any) -> None:
    _write(asv, [{}] * 4 + [{"kernels_launched": 2.0, "peak_memory": 4096.0}])  # one commit suffices
    asv.load(sqlite_store)
    (row,) = queries.overview(sqlite_store, "demo")
    assert row.verdict is Verdict.UNCHANGED
    assert {other.series.metric.name: other.verdict for other in row.other_metrics} == {
        "kernels_launched": Verdict.REGRESSED,
        "peak_memory": Verdict.REGRESSED,
    }
    (group,) = new_regressions(sqlite_store, "demo")
    assert group.commit.hash == hash_of(4)
    assert {one.series.metric.name for one in group.regressions} == {"kernels_launched", "peak_memory"}


def test_what_restates_or_explains_raises_no_alarm(sqlite_store: Store, asv: Any) -> None:
    _write(
        asv,
        [{}] * 10
        + [{"cycles": 400_000.0, "bandwidth": 1000.0, "sol_peak": 0.25, "energy": 0.08, "compile_time": 60.0}] * 10,
    )
    asv.load(sqlite_store)
    assert queries.regressions(sqlite_store, "demo") == ()
    assert {one.series.metric.name for one in worse_steps(sqlite_store, "demo")} == {
        "cycles",
        "bandwidth",
        "sol_peak",
        "energy",
        "compile_time",
    }
    (row,) = queries.overview(sqlite_store, "demo")
    assert (row.verdict, row.other_metrics) == (Verdict.UNCHANGED, ())


@pytest.mark.parametrize(
    ("moved", "regressed"),
    [
        ({"kernels_launched": 2.0}, {"kernels_launched"}),
        ({"peak_memory": 4096.0}, {"peak_memory"}),
        ({"warm_latency": 1.2e-4}, {"warm_latency"}),
        ({"energy": 0.08, "cycles": 4e5, "compile_time": 60.0}, set()),
    ],
)
def test_a_check_judges_what_is_judged(
    sqlite_store: Store, asv: Any, moved: dict[str, float], regressed: set[str]
) -> None:
    _write(asv, [{}] * 10 + [moved])
    asv.load(sqlite_store)
    base, head = (queries.find_commit(sqlite_store, "demo", f"{number:08x}") for number in (9, 10))
    assert base is not None
    assert head is not None
    found = check(sqlite_store, "demo", base, head, threshold=0.02)
    assert {row.series.metric for row in found.rows} == {
        "latency",
        "warm_latency",
        "peak_memory",
        "kernels_launched",
    }
    assert {row.series.metric for row in found.rows if row.verdict is Verdict.REGRESSED} == regressed
    assert found.count(Verdict.UNCHANGED) == 4 - len(regressed)


def test_the_report_has_a_row_a_workload_and_implementation(sqlite_store: Store, asv: Any) -> None:
    _write(asv, [{}])
    asv.load(sqlite_store)
    assert [(row.workload, row.latency_s) for row in queries.report(sqlite_store)] == [("w1", 1e-4)]

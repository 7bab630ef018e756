"""The headline: speedup over the best baseline, and its trend."""

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from statistics import fmean, median

import pytest

from tests.dashboard.pages.browsing import HOSTILE
from warpwatch.dashboard.analysis.headline import Headline, _log_ratios, headlines
from warpwatch.dashboard.analysis.kernel_curves import chained_mean
from warpwatch.dashboard.model.quantities import ratio
from warpwatch.dashboard.model.series import Status
from warpwatch.dashboard.model.thresholds import LimitRule, StatedLimits
from warpwatch.dashboard.model.verdict import Verdict
from warpwatch.dashboard.settings import Settings
from warpwatch.dashboard.store import Store, queries
from warpwatch.dashboard.store.policy import state_limits
from warpwatch.dashboard.store.queries.standings import Levels
from warpwatch.dashboard.web.app import create_app


@pytest.fixture(scope="module")
def store(history_store: Settings) -> Iterator[Store]:
    store = Store(history_store.database)
    yield store
    store.close()


def by_machine(store: Store) -> dict[str, Headline]:
    found = headlines(store, "kernels", queries.standings(store, "kernels"))
    assert found
    return {each.machine: each for each in found}


def ratios(store: Store, machine: str, kernels: set[str] | None = None) -> list[float]:
    """Speedups at the newest commit, from the report."""
    best: dict[tuple[str, str], list[float]] = defaultdict(list)
    ours: dict[tuple[str, str], float] = {}
    for row in queries.report(store, project="kernels", machine=machine):
        is_chosen = row.benchmark.endswith("track_latency") and (kernels is None or row.kernel in kernels)
        if row.latency_s is None or not is_chosen:
            continue
        if row.is_baseline:
            best[row.kernel, row.workload].append(row.latency_s)
        elif row.implementation == "warpwatch":
            ours[row.kernel, row.workload] = row.latency_s
    return [min(best[case]) / latency for case, latency in ours.items() if case in best]


MEASURED = "nvidia-h200"  # its newest commit measured every workload


def test_the_speedup_is_the_geometric_mean_over_the_best_baselines(store: Store) -> None:
    found, expected = by_machine(store)[MEASURED], ratios(store, MEASURED)
    assert found.workloads == len(expected)
    assert found.speedup == pytest.approx(math.exp(fmean(map(math.log, expected))))
    assert found.ahead == sum(ratio > 1 for ratio in expected)
    shares = [
        row.speed_of_light.share
        for row in queries.report(store, project="kernels", machine=MEASURED)
        if row.implementation == "warpwatch" and row.speed_of_light and row.ratios
    ]
    assert found.share_of_peak == pytest.approx(median(shares))


def test_a_workload_whose_code_is_unchanged_counts_with_its_earlier_ratio(store: Store) -> None:
    skipped = [
        row
        for row in queries.report(store, project="kernels", machine="runner-t4")
        if row.status is Status.UNCHANGED and row.implementation == "warpwatch"
    ]
    assert skipped
    assert not any(row.ratios for row in skipped)
    assert by_machine(store)["runner-t4"].workloads == len(ratios(store, "runner-t4"))


def test_the_trend_ends_at_the_speedup(store: Store) -> None:
    commits = len(queries.commits(store, "kernels", limit=1000))
    found = by_machine(store).values()
    assert all(each.trend[-1] == each.speedup for each in found)
    assert max(len(each.trend) for each in found) == commits


def test_a_step_of_ours_moves_the_trend_and_a_workload_that_is_not_measured_does_not() -> None:
    levels = Levels(
        commits=(1, 2, 3),
        by_key={
            "a": {1: 2.0, 2: 1.0, 3: 1.0},
            "b": {1: 1.0, 3: 1.0},
            "eager": {1: 2.0, 2: 2.0, 3: 2.0},
            "sdpa": {1: 4.0, 3: 4.0},
        },
    )
    before, step, after = chained_mean(_log_ratios([("a", ["eager", "sdpa"]), ("b", ["sdpa"])], levels))
    assert after == pytest.approx(math.sqrt(2 * 4))
    assert step == pytest.approx(after)
    assert before == pytest.approx(after / math.sqrt(2))


def test_kernels_that_a_rule_keeps_out_of_means_do_not_count(own: Settings) -> None:
    store = Store(own.database)
    stated = StatedLimits(
        source="warpwatch.toml",
        committed=datetime(2030, 1, 1, tzinfo=UTC),
        rules=(LimitRule(kernel=("flash_attention",), in_means=False),),
    )
    assert state_limits(store, "kernels", stated, now_ms=2**42)
    expected = ratios(store, MEASURED, {"rope", "int4_linear"})
    assert by_machine(store)[MEASURED].speedup == pytest.approx(math.exp(fmean(map(math.log, expected))))
    store.close()


def test_workloads_that_fail_at_the_newest_commit_are_counted(store: Store) -> None:
    entries, before = queries.standings(store, "kernels"), by_machine(store)[MEASURED]
    changed = [
        replace(entry, row=replace(row, verdict=Verdict.INVALID))
        if (row := entry.row).operator == "rope" and row.commit.hash == before.commit.hash
        else entry
        for entry in entries
    ]
    rope = [
        row
        for row in queries.report(store, project="kernels", machine=MEASURED)
        if row.kernel == "rope" and row.implementation == "warpwatch" and row.ratios
    ]
    after = {each.machine: each for each in headlines(store, "kernels", changed)}[MEASURED]
    assert (before.invalid, after.invalid) == (0, len(rope))
    assert rope
    assert replace(after, invalid=0) == before


def test_a_project_without_baselines_has_no_headline(store: Store) -> None:
    assert headlines(store, HOSTILE, queries.standings(store, HOSTILE)) == ()


def test_the_overview_begins_with_the_headline(history_store: Settings, store: Store) -> None:
    page = create_app(history_store).test_client().get("/kernels/").text
    for found in by_machine(store).values():
        assert f"{ratio(found.speedup)}</b> the best baseline" in page
        assert f"{found.ahead} of {found.workloads} workloads" in page

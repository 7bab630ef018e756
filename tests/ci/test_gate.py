"""The gate's schedule, order and loop with a simulated clock; real runs are in tests/end_to_end."""

import math
import re
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from tools.gate_trial import DISTURBANCES, Disturbance, PullRequest, Recorded, recorded, trial
from warpwatch.ci.asv_checkout import bench_pattern
from warpwatch.ci.gate.gate_command import gate
from warpwatch.ci.gate.gate_loop import StopReason, analysis_schedule, run_gate, run_order
from warpwatch.dashboard.model.metric import metric
from warpwatch.dashboard.model.series import Series
from warpwatch.dashboard.model.verdict import Verdict
from warpwatch.dashboard.statistics.comparison import FAMILY_ERROR, RunValue

RECORDED = sorted((Path(__file__).parents[2] / "perf_suite/trials/repeatability-h200").glob("run-*.json.gz"))
# Runs with little noise, so that planted changes are detected at once.
CALM = tuple(
    Recorded(level=1e-5 * (1 + n), off=(-0.001, 0.0, 0.0005, 0.001), spread=((0.999, 1.001, 50),) * 4)
    for n in range(30)
)


@pytest.mark.parametrize("most_runs", [2, 5, 12, 24])
def test_interim_analyses_share_one_family_error(most_runs: int) -> None:
    schedule = analysis_schedule(most_runs)
    assert math.isclose(sum(analysis.family_error for analysis in schedule), FAMILY_ERROR)
    assert schedule[-1].runs == most_runs
    assert [analysis.runs for analysis in schedule] == sorted({analysis.runs for analysis in schedule})


def test_a_gate_needs_two_runs() -> None:
    with pytest.raises(ValueError, match="needs 2 at least"):
        analysis_schedule(1)


def test_runs_alternate_so_that_linear_drift_affects_both_equally() -> None:
    turns = run_order(1, 4)
    assert list(turns) == [False, True, True, False, False, True, True, False]
    assert sum(index for index, head in enumerate(turns) if head) == sum(
        index for index, head in enumerate(turns) if not head
    )
    assert list(run_order(1, 2)) + list(run_order(3, 4)) == list(turns)


def test_decided_series_are_not_measured_again() -> None:
    rng = np.random.default_rng(3)
    request = PullRequest(CALM, 30, {0}, 0.1, rng)
    calls = []

    def measure(is_head: bool, series: object) -> None:
        calls.append(series)
        request.measure(is_head, series)

    done = run_gate(analysis_schedule(12), measure, partial(request.check, 0.02), budget_s=math.inf)
    assert done.comparison.count(Verdict.REGRESSED) == 1
    assert done.comparison.count(Verdict.UNCHANGED) == 29
    assert done.stopped is StopReason.DECIDED
    assert all(series is None for series in calls[:4])
    every_key = {one.key for one in request.series}
    assert all({one.key for one in series} < every_key for series in calls[4:])


def test_the_budget_ends_a_gate_but_not_before_the_first_analysis() -> None:
    request = PullRequest(CALM, 30, {0}, 0.019, np.random.default_rng(4))
    clock = iter(range(0, 100_000, 10))
    done = run_gate(
        analysis_schedule(12),
        request.measure,
        partial(request.check, 0.0005),
        budget_s=1.0,
        clock=lambda: float(next(clock)),
    )
    assert done.stopped is not StopReason.DECIDED
    assert done.runs == 2


def test_recorded_noise_raises_no_alarm_and_three_percent_are_detected() -> None:
    pool = recorded(RECORDED)
    assert len(pool) > 200
    same = trial(pool, analysis_schedule(12), pull_requests=15, series=100, change=0.0, threshold=0.02, seed=7)
    assert (same.false_alarms, same.planted) == (0, 0)
    slower = trial(pool, analysis_schedule(12), pull_requests=5, series=100, change=0.03, threshold=0.02, seed=8)
    assert slower.false_alarms == 0
    assert slower.found >= 0.95 * slower.planted > 0


class _Outliers(PullRequest):
    """One series, whose first two runs at head are 20 % off."""

    def _draw(self, number: int, is_head: bool, off: float) -> RunValue:
        drawn = super()._draw(number, is_head, off)
        is_off = number == 0 and is_head and len(self._runs[True][self.series[0].key]) < 2
        return drawn._replace(value=drawn.value * 1.2) if is_off else drawn


def test_two_equal_outliers_are_no_change() -> None:
    request = _Outliers(CALM, 30, {}, 0.0, np.random.default_rng(3))
    first = run_gate(analysis_schedule(2), request.measure, partial(request.check, 0.02), budget_s=math.inf)
    assert first.comparison.count(Verdict.REGRESSED) == 1  # two runs of each cannot exclude it
    request = _Outliers(CALM, 30, {}, 0.0, np.random.default_rng(3))
    done = run_gate(analysis_schedule(12), request.measure, partial(request.check, 0.02), budget_s=math.inf)
    assert done.comparison.count(Verdict.REGRESSED) == 0
    assert done.comparison.count(Verdict.UNCHANGED) >= 29


@pytest.mark.parametrize("disturbance", DISTURBANCES[1:], ids=lambda each: each.name)
def test_a_slowdown_beyond_the_threshold_is_rarely_unchanged(disturbance: Disturbance) -> None:
    tally = trial(
        recorded(RECORDED),
        analysis_schedule(12),
        pull_requests=5,
        series=60,
        change=0.03,
        threshold=0.02,
        seed=4,
        disturbance=disturbance,
    )
    assert tally.called_unchanged <= 0.05 * tally.planted
    assert tally.false_alarms == 0


def test_the_pattern_of_a_series_matches_its_case_with_all_baselines_and_metrics() -> None:
    series = Series(
        key="0" * 16,
        project="p",
        benchmark="benchmarks.rope.Rope.track_latency",
        parameters=(("workload", "cpu-fp32-b1"), ("implementation", "warpwatch")),
        metric=metric("latency", "seconds"),
        machine="m",
        environment="",
        workload="cpu-fp32-b1",
        implementation="warpwatch",
        is_baseline=False,
        listed=True,
    )
    pattern = re.compile(bench_pattern(series.suite, series.parameters))
    assert pattern.search("benchmarks.rope.Rope.track_latency('cpu-fp32-b1', 'eager')")
    assert pattern.search("benchmarks.rope.Rope.track_sm_cycles('cpu-fp32-b1', 'warpwatch')")
    assert not pattern.search("benchmarks.rope.Rope.track_latency('cpu-fp32-b16', 'eager')")
    assert not pattern.search("benchmarks.rope.RopeInPlace.track_latency('cpu-fp32-b1', 'eager')")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["HEAD", "HEAD"], "are the same commit"),
        (["HEAD", "no-such-branch"], "has no commit 'no-such-branch'"),
    ],
)
def test_wrong_commits_are_named(words: list[str], message: str, tmp_path: Path) -> None:
    house = str(Path(__file__).parents[2])
    done = CliRunner().invoke(gate, [*words, "--folder", house, "--database", f"sqlite:///{tmp_path / 'gate.db'}"])
    assert done.exit_code == 2
    assert message in done.output


def test_a_folder_without_asv_is_named(tmp_path: Path) -> None:
    done = CliRunner().invoke(gate, ["a", "b", "--folder", str(tmp_path)])
    assert done.exit_code == 2
    assert "asv" in done.output

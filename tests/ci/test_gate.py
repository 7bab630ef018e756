"""The gate's looks, order and loop, with a stopwatch of the test's own; real runs are in tests/end_to_end."""

import math
import re
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from tools.gate_trial import DISTURBANCES, Disturbance, PullRequest, Recorded, recorded, trial
from warpwatch.ci.gate.alpha_spending import looks, order
from warpwatch.ci.gate.asv_runner import pattern_of
from warpwatch.ci.gate.gate_command import gate
from warpwatch.ci.gate.gate_loop import StopReason, run_gate
from warpwatch.dashboard.model.metric import metric
from warpwatch.dashboard.model.series import Series
from warpwatch.dashboard.model.verdict import Verdict
from warpwatch.dashboard.statistics.comparison import FAMILY_ERROR, RunValue

RECORDED = sorted((Path(__file__).parents[2] / "perf_suite/trials/repeatability-h200").glob("run-*.json.gz"))
# Runs that hardly differ, so that what is planted is told at once.
CALM = tuple(
    Recorded(level=1e-5 * (1 + n), off=(-0.001, 0.0, 0.0005, 0.001), spread=((0.999, 1.001, 50),) * 4)
    for n in range(30)
)


@pytest.mark.parametrize("most", [2, 5, 12, 24])
def test_all_looks_together_spend_one_family_error(most: int) -> None:
    schedule = looks(most)
    assert math.isclose(sum(look.family_error for look in schedule), FAMILY_ERROR)
    assert schedule[-1].runs == most
    assert [look.runs for look in schedule] == sorted({look.runs for look in schedule})


def test_one_run_is_no_gate() -> None:
    with pytest.raises(ValueError, match="takes 2 at least"):
        looks(1)


def test_runs_alternate_so_that_a_machine_on_its_way_weighs_on_both_alike() -> None:
    turns = order(1, 4)
    assert list(turns) == [False, True, True, False, False, True, True, False]
    assert sum(place for place, head in enumerate(turns) if head) == sum(
        place for place, head in enumerate(turns) if not head
    )
    assert list(order(1, 2)) + list(order(3, 4)) == list(turns)


def test_what_is_told_is_not_measured_again() -> None:
    rng = np.random.default_rng(3)
    request = PullRequest(CALM, 30, {0}, 0.1, rng)
    asked = []

    def measure(is_head: bool, wanted: object) -> None:
        asked.append(wanted)
        request.measure(is_head, wanted)

    done = run_gate(looks(12), measure, partial(request.check, 0.02), budget_s=math.inf)
    assert done.comparison.count(Verdict.REGRESSED) == 1
    assert done.comparison.count(Verdict.UNCHANGED) == 29
    assert done.stopped is StopReason.DECIDED
    assert all(wanted is None for wanted in asked[:4])
    assert all({series.key for series in wanted} < {series.key for series in request.series} for wanted in asked[4:])


def test_a_budget_ends_it_before_a_run_that_would_be_late_but_not_before_the_first_look() -> None:
    request = PullRequest(CALM, 30, {0}, 0.019, np.random.default_rng(4))
    clock = iter(range(0, 100_000, 10))
    done = run_gate(
        looks(12), request.measure, partial(request.check, 0.0005), budget_s=1.0, clock=lambda: float(next(clock))
    )
    assert done.stopped is not StopReason.DECIDED
    assert done.runs == 2


def test_noise_as_recorded_raises_no_alarm_and_three_percent_are_found() -> None:
    pool = recorded(RECORDED)
    assert len(pool) > 200
    same = trial(pool, looks(12), pull_requests=15, series=100, change=0.0, threshold=0.02, seed=7)
    assert (same.false_alarms, same.planted) == (0, 0)
    slower = trial(pool, looks(12), pull_requests=5, series=100, change=0.03, threshold=0.02, seed=8)
    assert slower.false_alarms == 0
    assert slower.found >= 0.95 * slower.planted > 0


class _Outliers(PullRequest):
    """Of one series, both of head's first runs are 20 % off, alike."""

    def _draw(self, number: int, is_head: bool, off: float) -> RunValue:
        drawn = super()._draw(number, is_head, off)
        is_off = number == 0 and is_head and len(self._runs[True][self.series[0].key]) < 2
        return drawn._replace(value=drawn.value * 1.2) if is_off else drawn


def test_two_outliers_alike_are_no_change() -> None:
    request = _Outliers(CALM, 30, {}, 0.0, np.random.default_rng(3))
    first = run_gate(looks(2), request.measure, partial(request.check, 0.02), budget_s=math.inf)
    assert first.comparison.count(Verdict.REGRESSED) == 1  # two runs of each cannot tell
    request = _Outliers(CALM, 30, {}, 0.0, np.random.default_rng(3))
    done = run_gate(looks(12), request.measure, partial(request.check, 0.02), budget_s=math.inf)
    assert done.comparison.count(Verdict.REGRESSED) == 0
    assert done.comparison.count(Verdict.UNCHANGED) >= 29


@pytest.mark.parametrize("disturbance", DISTURBANCES[1:], ids=lambda each: each.name)
def test_what_is_slower_by_more_than_matters_is_hardly_ever_called_unchanged(disturbance: Disturbance) -> None:
    told = trial(
        recorded(RECORDED),
        looks(12),
        pull_requests=5,
        series=60,
        change=0.03,
        threshold=0.02,
        seed=4,
        disturbance=disturbance,
    )
    assert told.called_unchanged <= 0.05 * told.planted
    assert told.false_alarms == 0


def test_a_series_asks_asv_for_its_case_with_all_rivals_and_metrics() -> None:
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
    pattern = re.compile(pattern_of(series.suite, series.parameters))
    assert pattern.search("benchmarks.rope.Rope.track_latency('cpu-fp32-b1', 'eager')")
    assert pattern.search("benchmarks.rope.Rope.track_sm_cycles('cpu-fp32-b1', 'warpwatch')")
    assert not pattern.search("benchmarks.rope.Rope.track_latency('cpu-fp32-b16', 'eager')")
    assert not pattern.search("benchmarks.rope.RopeInPlace.track_latency('cpu-fp32-b1', 'eager')")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["HEAD", "HEAD"], "are the same commit"),
        (["HEAD", "no-such-branch"], "has no commit 'no-such-branch'"),
    ],
)
def test_wrong_commits_are_named(words: list[str], said: str, tmp_path: Path) -> None:
    house = str(Path(__file__).parents[2])
    done = CliRunner().invoke(gate, [*words, "--folder", house, "--database", f"sqlite:///{tmp_path / 'gate.db'}"])
    assert done.exit_code == 2
    assert said in done.output


def test_a_folder_without_asv_is_named(tmp_path: Path) -> None:
    done = CliRunner().invoke(gate, ["a", "b", "--folder", str(tmp_path)])
    assert done.exit_code == 2
    assert "asv" in done.output

"""The bisect's inference and loop on simulated commits; real commits are in tests/end_to_end/test_bisect.py."""

import itertools
import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tools.bisect_trial import SimulatedBench, World, calibration, trial
from tools.gate_trial import Recorded, recorded
from warpwatch.ci.bisect.bisect_loop import Conclusion, Search, SearchSettings, likeliest, search
from warpwatch.ci.bisect.posterior import posterior_of
from warpwatch.ci.bisect.run_likelihood import ExpectedNoise, Run

RECORDED = sorted((Path(__file__).parents[2] / "perf_suite/trials/repeatability-h200").glob("run-*.json.gz"))
CALM = (Recorded(level=1e-5, off=(-0.002, -0.001, 0.0, 0.001, 0.002), spread=((0.999, 1.001, 50),) * 5),)
NOISE = ExpectedNoise(sigma=0.002, df=4)


def _bench(culprit: int, change: float = 0.03, commits: int = 64, broken: tuple[int, ...] = (), seed: int = 1):
    levels = [math.log1p(change) * (index >= culprit) for index in range(commits + 1)]
    return SimulatedBench(
        pool=CALM,
        levels=levels,
        broken=frozenset(broken),
        world=World(name=""),
        rng=np.random.default_rng(seed),
    )


def _search(bench: SimulatedBench, commits: int = 64, **more) -> Search:
    settings = more.pop("settings", SearchSettings(budget_s=math.inf))
    prior = more.pop("prior", np.ones(commits))
    return search(bench, lambda: prior, NOISE, settings, clock=lambda: bench.seconds, **more)


def _plain_probabilities(prior: np.ndarray, runs: list[Run], noise: ExpectedNoise) -> np.ndarray:
    """Probabilities under one step, by plain sums over both levels and the noise's sigma."""
    values = np.array([run.value for run in runs])
    levels = np.linspace(values.min() - 0.05, values.max() + 0.05, 2001)
    sigmas = np.geomspace(2e-4, 0.05, 60)
    probabilities = []
    for index in range(1, len(prior) + 1):
        total = 0.0
        for sigma in sigmas:
            expected = math.exp(-noise.df * (math.log(sigma / noise.sigma) + 0.5 * (noise.sigma / sigma) ** 2))
            sides = []
            for is_after in (False, True):
                likelihood = np.ones_like(levels)
                for run in runs:
                    if (run.index >= index) == is_after:
                        away = (run.value - levels) / math.hypot(sigma, run.error)
                        likelihood *= (1 + away**2 / 4) ** -2.5 / math.hypot(sigma, run.error) * 1e-3
                sides.append(likelihood.sum())
            total += expected * sides[0] * sides[1]
        probabilities.append(prior[index - 1] * total)
    return np.array(probabilities) / sum(probabilities)


def test_probabilities_equal_those_of_the_plain_sum() -> None:
    # A clear step, which excludes a second one, and a commit near its middle.
    values = {0: (0.0, 0.003), 3: (-0.001,), 5: (0.016,), 8: (0.03, 0.027)}
    runs = [Run(index=index, value=value, error=0.001) for index, own in values.items() for value in own]
    prior = np.array([1.0, 1.0, 0.2, 1.0, 3.0, 1.0, 1.0, 1.0])
    result = posterior_of(prior, runs, NOISE)
    one_step = _plain_probabilities(prior, runs, NOISE)
    assert math.isclose(result.probability.sum(), 1.0)
    assert result.probability[:3].sum() < 0.01
    assert np.allclose(
        result.probability[3:5] / result.probability[3], one_step[3:5] / one_step[3]
    )  # by the prior alone
    assert result.steps[0] > 0.5
    assert abs(result.probability[3:5].sum() - one_step[3:5].sum()) < 0.1


@settings(max_examples=25, deadline=None)
@given(st.lists(st.floats(-0.01, 0.01), min_size=5, max_size=9), st.sampled_from([-3.0, 7.5]))
def test_probabilities_depend_neither_on_the_unit_nor_on_the_direction(values: list[float], unit: float) -> None:
    values = [value + 0.05 * (index >= 3) for index, value in enumerate(values)]

    def probabilities(values: list[float]) -> np.ndarray:
        runs = [Run(index=index, value=value) for index, value in enumerate(values)]
        return posterior_of(np.ones(len(runs) - 1), runs, NOISE).probability

    result = probabilities(values)
    assert math.isclose(result.sum(), 1.0)
    assert (result >= 0).all()
    assert np.allclose(probabilities([value + unit for value in values]), result, atol=1e-3)
    assert np.allclose(probabilities([-value for value in values]), result, atol=1e-3)


@pytest.mark.parametrize("culprit", [1, 2, 33, 63, 64])
def test_the_culprit_is_found_anywhere(culprit: int) -> None:
    bench = _bench(culprit)
    done = _search(bench)
    assert done.conclusion is Conclusion.FOUND
    assert done.suspects is not None
    assert (done.suspects.first, done.suspects.last) == (culprit, culprit)
    assert done.suspects.probability >= 0.98
    assert done.posterior is not None
    assert abs(done.posterior.change - math.log(1.03)) < 0.003
    counts = Counter(run.index for run in done.runs)
    assert counts[culprit] >= 2 <= counts[culprit - 1]
    assert len(done.runs) <= 20


def test_commits_that_do_not_build_end_in_a_range() -> None:
    broken = (30, 31, 32)
    done = _search(_bench(31, broken=broken))
    assert done.conclusion is Conclusion.RANGE
    assert done.suspects is not None
    assert (done.suspects.first, done.suspects.last) == (30, 33)
    assert {30, 31, 32} & done.skipped
    assert done.skipped <= set(broken)
    assert math.isclose(done.posterior.probability[29:33].sum(), done.suspects.probability)


def test_without_a_change_there_is_no_search() -> None:
    done = _search(_bench(10, change=0.0))
    assert done.conclusion is Conclusion.NOT_REPRODUCED
    assert done.suspects is None
    assert {run.index for run in done.runs} == {0, 64}


def test_an_end_that_does_not_build_ends_the_bisect() -> None:
    done = _search(_bench(10, broken=(64,)))
    assert (done.conclusion, done.posterior) == (Conclusion.END_FAILED, None)


def test_the_budget_ends_the_search_with_the_likeliest_commit() -> None:
    bench = _bench(10)
    done = _search(bench, settings=SearchSettings(budget_s=600))
    assert done.conclusion is Conclusion.BUDGET
    assert bench.seconds <= 600
    assert done.suspects is not None
    assert done.suspects.probability < 0.98


def test_unlikely_commits_are_not_measured() -> None:
    prior = np.full(64, 1e-4)
    prior[[9, 40]] = 1.0
    done = _search(_bench(41), prior=prior)
    assert done.suspects is not None
    assert (done.suspects.first, done.suspects.probability > 0.98) == (41, True)
    assert {run.index for run in done.runs} == {0, 10, 41, 64}


def test_a_killed_search_continues_with_its_runs() -> None:
    first, new_runs = _bench(23), []
    measured = [0, 64, 64, 0, *_search(_bench(23)).posterior.measured.tolist()[1:-1]]
    runs = [run for index in measured if (run := first.measure(index)) is not None]
    for known in range(1, len(runs) + 1, 3):
        bench = _bench(23, seed=2)
        bench.seconds = first.seconds
        again = _search(bench, runs=runs[:known])
        assert again.suspects is not None
        assert (again.suspects.first, again.suspects.last) == (23, 23)
        new_runs.append(len(again.runs) - known)
    assert new_runs[-1] < new_runs[0]


def test_of_two_changes_the_larger_is_found_and_the_other_reported() -> None:
    levels = [0.0] * 20 + [0.02] * 20 + [0.06] * 25
    bench = SimulatedBench(
        pool=CALM, levels=levels, broken=frozenset(), world=World(name=""), rng=np.random.default_rng(3)
    )
    done = _search(bench)
    assert done.posterior is not None
    assert done.suspects is not None
    assert done.suspects.first == 40
    assert sum(done.posterior.steps[1:]) > 0.9
    other = done.posterior.measured[int(np.argmax(done.posterior.other_gaps)) - 1 :][:2]
    assert other[0] < 20 <= other[1]


def test_drift_is_removed_but_no_change_of_commits() -> None:
    rng = np.random.default_rng(5)
    order = [0, 8, 8, 0, 4, 6, 0, 5, 8, 4, 0, 5, 8, 6, 0, 4, 8, 5]
    walk = np.linspace(0.0, 0.05, len(order))
    true = np.array([0.03 * (index >= 5) for index in order])
    own = 0.001 * rng.standard_normal(len(order))
    for controls in ((), tuple(zip(*(walk + 0.001 * rng.standard_normal(len(walk)) for _ in range(3)), strict=True))):
        runs = [
            Run(index=index, value=float(value), at_s=60.0 * n, controls=controls[n] if controls else ())
            for n, (index, value) in enumerate(zip(order, walk + true + own, strict=True))
        ]
        rest = np.array([run.value for run in posterior_of(np.ones(8), runs, NOISE).runs_without_drift]) - true
        assert rest.std() < 0.1 * walk.std()
    once = [Run(index=index, value=0.01 * index) for index in range(9)]
    assert [run.value for run in posterior_of(np.ones(8), once, NOISE).runs_without_drift] == [
        run.value for run in once
    ]


def test_only_differences_count_between_sessions() -> None:
    days = itertools.product((0.0, 1e5), (0, 8, 0, 8))
    runs = [
        Run(index=index, value=0.03 * (index > 0) + 0.02 * (day > 0) + 1e-4 * n, at_s=day + 60.0 * n)
        for n, (day, index) in enumerate(days)
    ]
    values = np.array([run.value for run in posterior_of(np.ones(8), runs, NOISE).runs_without_drift])
    at_zero = values[::2]
    assert np.ptp(at_zero) < 0.004


@pytest.mark.parametrize(
    ("world", "change"),
    [
        (World(name="as recorded"), 0.03),
        (World(name="wild", wild=0.05), 0.1),
        (World(name="walks", walk=0.01), 0.03),
        (World(name="broken", broken=0.25), 0.03),
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_with_recorded_noise_the_commit_is_right_and_the_confidence_calibrated(world: World, change: float) -> None:
    tally = trial(recorded(RECORDED), world, change, tries=12, seed=11)
    assert tally.right >= 11
    assert tally.stated >= 0.98
    assert tally.runs < 32
    for _, count, mean, right in calibration(tally.predictions):
        assert count < 20 or right > mean - 3 * math.sqrt(max(mean * (1 - mean), 0.01) / count)


def test_indistinguishable_neighbours_are_suspects_together() -> None:
    runs = [Run(index=index, value=0.03 * (index > 4)) for index in (0, 0, 4, 4, 8, 8)]
    result = posterior_of(np.ones(8), runs, NOISE)
    assert likeliest(result, set()).probability < 0.3
    together = likeliest(result, {5, 6, 7})
    assert (together.first, together.last) == (5, 8)
    assert together.probability > 0.95

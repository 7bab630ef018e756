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
from warpwatch.ci.bisect.bisect_loop import End, Search, SearchSettings, likeliest, search
from warpwatch.ci.bisect.measured_runs import ExpectedNoise, Run
from warpwatch.ci.bisect.posterior import posterior

RECORDED = sorted((Path(__file__).parents[2] / "perf_suite/trials/repeatability-h200").glob("run-*.json.gz"))
CALM = (Recorded(level=1e-5, off=(-0.002, -0.001, 0.0, 0.001, 0.002), spread=((0.999, 1.001, 50),) * 5),)
NOISE = ExpectedNoise(scale=0.002, df=4)


def _bench(culprit: int, change: float = 0.03, commits: int = 64, broken: tuple[int, ...] = (), seed: int = 1):
    levels = [math.log1p(change) * (place >= culprit) for place in range(commits + 1)]
    return SimulatedBench(
        pool=CALM,
        levels=levels,
        broken=frozenset(broken),
        world=World(name=""),
        rng=np.random.default_rng(seed),
    )


def _search(bench: SimulatedBench, commits: int = 64, **more) -> Search:
    wanted = more.pop("wanted", SearchSettings(budget_s=math.inf))
    prior = more.pop("prior", np.ones(commits))
    return search(bench, lambda: prior, NOISE, wanted, clock=lambda: bench.seconds, **more)


def _slow_chances(prior: np.ndarray, runs: list[Run], noise: ExpectedNoise) -> np.ndarray:
    """One step alone, each place by a plain sum over both levels and the scale of the noise."""
    values = np.array([run.value for run in runs])
    levels = np.linspace(values.min() - 0.05, values.max() + 0.05, 2001)
    scales = np.geomspace(2e-4, 0.05, 60)
    chances = []
    for place in range(1, len(prior) + 1):
        total = 0.0
        for scale in scales:
            expected = math.exp(-noise.df * (math.log(scale / noise.scale) + 0.5 * (noise.scale / scale) ** 2))
            sides = []
            for is_after in (False, True):
                likelihood = np.ones_like(levels)
                for run in runs:
                    if (run.place >= place) == is_after:
                        away = (run.value - levels) / math.hypot(scale, run.error)
                        likelihood *= (1 + away**2 / 4) ** -2.5 / math.hypot(scale, run.error) * 1e-3
                sides.append(likelihood.sum())
            total += expected * sides[0] * sides[1]
        chances.append(prior[place - 1] * total)
    return np.array(chances) / sum(chances)


def test_chances_are_those_of_the_plain_sum() -> None:
    # A step so clear that a second one is out of the question, and a commit near the middle of it.
    places = {0: (0.0, 0.003), 3: (-0.001,), 5: (0.016,), 8: (0.03, 0.027)}
    runs = [Run(place=place, value=value, error=0.001) for place, its in places.items() for value in its]
    prior = np.array([1.0, 1.0, 0.2, 1.0, 3.0, 1.0, 1.0, 1.0])
    told = posterior(prior, runs, NOISE)
    one_step = _slow_chances(prior, runs, NOISE)
    assert math.isclose(told.chance.sum(), 1.0)
    assert told.chance[:3].sum() < 0.01
    assert np.allclose(told.chance[3:5] / told.chance[3], one_step[3:5] / one_step[3])  # by the prior alone
    assert told.steps[0] > 0.5
    assert abs(told.chance[3:5].sum() - one_step[3:5].sum()) < 0.1


@settings(max_examples=25, deadline=None)
@given(st.lists(st.floats(-0.01, 0.01), min_size=5, max_size=9), st.sampled_from([-3.0, 7.5]))
def test_what_is_told_depends_neither_on_the_unit_nor_on_which_way_is_worse(values: list[float], unit: float) -> None:
    values = [value + 0.05 * (place >= 3) for place, value in enumerate(values)]

    def chances(values: list[float]) -> np.ndarray:
        runs = [Run(place=place, value=value) for place, value in enumerate(values)]
        return posterior(np.ones(len(runs) - 1), runs, NOISE).chance

    told = chances(values)
    assert math.isclose(told.sum(), 1.0)
    assert (told >= 0).all()
    assert np.allclose(chances([value + unit for value in values]), told, atol=1e-3)
    assert np.allclose(chances([-value for value in values]), told, atol=1e-3)


@pytest.mark.parametrize("culprit", [1, 2, 33, 63, 64])
def test_the_commit_is_named_wherever_it_is(culprit: int) -> None:
    bench = _bench(culprit)
    done = _search(bench)
    assert done.end is End.FOUND
    assert done.suspects is not None
    assert (done.suspects.first, done.suspects.last) == (culprit, culprit)
    assert done.suspects.chance >= 0.98
    assert done.now is not None
    assert abs(done.now.change - math.log(1.03)) < 0.003
    counts = Counter(run.place for run in done.runs)
    assert counts[culprit] >= 2 <= counts[culprit - 1]
    assert len(done.runs) <= 20


def test_commits_that_do_not_build_end_in_a_range() -> None:
    broken = (30, 31, 32)
    done = _search(_bench(31, broken=broken))
    assert done.end is End.RANGE
    assert done.suspects is not None
    assert (done.suspects.first, done.suspects.last) == (30, 33)
    assert {30, 31, 32} & done.skipped
    assert done.skipped <= set(broken)
    assert math.isclose(done.now.chance[29:33].sum(), done.suspects.chance)


def test_a_change_that_is_not_there_is_not_looked_for() -> None:
    done = _search(_bench(10, change=0.0))
    assert done.end is End.NOT_REPRODUCED
    assert done.suspects is None
    assert {run.place for run in done.runs} == {0, 64}


def test_an_end_that_does_not_build_ends_it() -> None:
    done = _search(_bench(10, broken=(64,)))
    assert (done.end, done.now) == (End.NO_END, None)


def test_the_budget_ends_it_after_the_ends_and_says_what_is_known() -> None:
    bench = _bench(10)
    done = _search(bench, wanted=SearchSettings(budget_s=600))
    assert done.end is End.SPENT
    assert bench.seconds <= 600
    assert done.suspects is not None
    assert done.suspects.chance < 0.98


def test_what_cannot_be_the_culprit_is_not_measured() -> None:
    prior = np.full(64, 1e-4)
    prior[[9, 40]] = 1.0
    done = _search(_bench(41), prior=prior)
    assert done.suspects is not None
    assert (done.suspects.first, done.suspects.chance > 0.98) == (41, True)
    assert {run.place for run in done.runs} == {0, 10, 41, 64}


def test_a_killed_search_goes_on_with_what_it_measured() -> None:
    first, made = _bench(23), []
    measured = [0, 64, 64, 0, *_search(_bench(23)).now.measured.tolist()[1:-1]]
    runs = [run for place in measured if (run := first.measure(place)) is not None]
    for kept in range(1, len(runs) + 1, 3):
        bench = _bench(23, seed=2)
        bench.seconds = first.seconds
        again = _search(bench, runs=runs[:kept])
        assert again.suspects is not None
        assert (again.suspects.first, again.suspects.last) == (23, 23)
        made.append(len(again.runs) - kept)
    assert made[-1] < made[0]


def test_of_two_changes_the_larger_is_named_and_the_other_told() -> None:
    levels = [0.0] * 20 + [0.02] * 20 + [0.06] * 25
    bench = SimulatedBench(
        pool=CALM, levels=levels, broken=frozenset(), world=World(name=""), rng=np.random.default_rng(3)
    )
    done = _search(bench)
    assert done.now is not None
    assert done.suspects is not None
    assert done.suspects.first == 40
    assert sum(done.now.steps[1:]) > 0.9
    other = done.now.measured[int(np.argmax(done.now.other_gaps)) - 1 :][:2]
    assert other[0] < 20 <= other[1]


def test_the_machines_way_is_taken_off_but_no_change_of_commits() -> None:
    rng = np.random.default_rng(5)
    order = [0, 8, 8, 0, 4, 6, 0, 5, 8, 4, 0, 5, 8, 6, 0, 4, 8, 5]
    walk = np.linspace(0.0, 0.05, len(order))
    true = np.array([0.03 * (place >= 5) for place in order])
    own = 0.001 * rng.standard_normal(len(order))
    for controls in ((), tuple(zip(*(walk + 0.001 * rng.standard_normal(len(walk)) for _ in range(3)), strict=True))):
        runs = [
            Run(place=place, value=float(value), at_s=60.0 * n, controls=controls[n] if controls else ())
            for n, (place, value) in enumerate(zip(order, walk + true + own, strict=True))
        ]
        rest = np.array([run.value for run in posterior(np.ones(8), runs, NOISE).steady]) - true
        assert rest.std() < 0.1 * walk.std()
    once = [Run(place=place, value=0.01 * place) for place in range(9)]
    assert [run.value for run in posterior(np.ones(8), once, NOISE).steady] == [run.value for run in once]


def test_runs_of_another_day_tell_differences_alone() -> None:
    days = itertools.product((0.0, 1e5), (0, 8, 0, 8))
    runs = [
        Run(place=place, value=0.03 * (place > 0) + 0.02 * (day > 0) + 1e-4 * n, at_s=day + 60.0 * n)
        for n, (day, place) in enumerate(days)
    ]
    values = np.array([run.value for run in posterior(np.ones(8), runs, NOISE).steady])
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
def test_with_recorded_noise_the_commit_is_right_and_the_confidence_earned(world: World, change: float) -> None:
    told = trial(recorded(RECORDED), world, change, tries=12, seed=11)
    assert told.right >= 11
    assert told.stated >= 0.98
    assert told.runs < 32
    for _, count, mean, right in calibration(told.predictions):
        assert count < 20 or right > mean - 3 * math.sqrt(max(mean * (1 - mean), 0.01) / count)


def test_neighbours_that_nobody_can_tell_apart_stand_together() -> None:
    runs = [Run(place=place, value=0.03 * (place > 4)) for place in (0, 0, 4, 4, 8, 8)]
    now = posterior(np.ones(8), runs, NOISE)
    assert likeliest(now, set()).chance < 0.3
    together = likeliest(now, {5, 6, 7})
    assert (together.first, together.last) == (5, 8)
    assert together.chance > 0.95

"""The detector: properties that hold for any series, and a slow, obvious twin of each formula in it."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warpwatch.dashboard.statistics import changepoint as module
from warpwatch.dashboard.statistics.changepoint import changepoints
from warpwatch.dashboard.statistics.noise import noise_scale

seeds = st.integers(0, 2**32 - 1)


def _noisy(seed: int, levels: list[tuple[int, float]], cv: float = 0.01) -> list[float]:
    """Normal noise around levels, each for so many values."""
    rng = np.random.default_rng(seed)
    return [float(level * (1 + cv * rng.standard_normal())) for count, level in levels for _ in range(count)]


@given(st.floats(1e-9, 1e9), st.integers(0, 300))
def test_a_constant_series_has_none(value: float, count: int) -> None:
    assert changepoints([value] * count) == ()


@given(seeds, st.sampled_from([2.0**-20, 2.0**-3, 2.0**10]))
@settings(max_examples=50)
def test_they_do_not_depend_on_the_unit(seed: int, scale: float) -> None:
    values = _noisy(seed, [(30, 1.0), (30, 1.1), (30, 1.02)])
    found, scaled = changepoints(values), changepoints([scale * value for value in values])
    assert [c.index for c in found] == [c.index for c in scaled]
    assert [c.magnitude for c in found] == pytest.approx([c.magnitude for c in scaled])


@given(seeds, st.floats(0.08, 1.0), st.integers(15, 60), st.integers(15, 60), st.booleans())
@settings(max_examples=100)
def test_a_large_step_is_found_where_it_is(seed: int, size: float, left: int, right: int, down: bool) -> None:
    level = 1 / (1 + size) if down else 1 + size
    (found,) = changepoints(_noisy(seed, [(left, 1.0), (right, level)]))
    assert abs(found.index - left) <= 1
    assert found.magnitude == pytest.approx(level - 1, abs=0.03)  # three standard errors and more
    assert found.low < found.magnitude < found.high


@given(seeds, st.floats(0.08, 0.5))
@settings(max_examples=50)
def test_the_series_read_backwards_has_the_same_step(seed: int, size: float) -> None:
    values = _noisy(seed, [(40, 1.0), (25, 1 + size)])
    (forward,), (backward,) = changepoints(values), changepoints(values[::-1])
    assert forward.index == pytest.approx(len(values) - backward.index, abs=1)
    assert (1 + forward.magnitude) * (1 + backward.magnitude) == pytest.approx(1, abs=0.03)


@given(seeds, st.floats(-0.5, 20.0), st.integers(0, 79))
@settings(max_examples=100)
def test_one_outlier_is_no_change_however_far_it_is(seed: int, size: float, place: int) -> None:
    values = _noisy(seed, [(80, 1.0)])
    before = [c.index for c in changepoints(values)]
    values[place] *= 1 + size
    assert [c.index for c in changepoints(values)] == before


def test_false_alarms_in_normal_noise_are_rare() -> None:
    """4 in 300 series of 200 values would already be one a 15,000 points; tuned for none."""
    assert sum(bool(changepoints(_noisy(seed, [(200, 1.0)]))) for seed in range(300)) <= 3


def test_changes_below_what_matters_are_not_told() -> None:
    values = _noisy(3, [(100, 1.0), (100, 1.006)], cv=0.0005)
    assert changepoints(values, smallest_change=0.01) == ()
    assert [c.index for c in changepoints(values, smallest_change=0.001)] == [100]


def test_several_steps_are_all_found() -> None:
    values = _noisy(1, [(40, 1.0), (30, 1.2), (50, 1.05), (20, 0.9)])
    assert [c.index for c in changepoints(values)] == pytest.approx([40, 70, 120], abs=1)


@pytest.mark.parametrize("levels", [[(20, 0.0), (20, 5.0)], [(20, -4.0), (20, -8.0)], [(20, 3.0), (20, 0.0)]])
def test_values_at_or_below_zero_are_judged_too(levels: list[tuple[int, float]]) -> None:
    values = [level + 0.01 * (i % 3) for count, level in levels for i in range(count)]
    assert [c.index for c in changepoints(values)] == [20]


def test_ten_thousand_values_take_seconds_at_most() -> None:
    values = _noisy(5, [(100, 1.0), (100, 1.1)] * 50)
    assert len(changepoints(values)) >= 80


@given(seeds, st.integers(2, 30))
@settings(max_examples=200)
def test_pelt_finds_the_best_segmentation(seed: int, penalty_tenths: int) -> None:
    """Against all segmentations of twelve values."""
    values = np.random.default_rng(seed).standard_normal(12).cumsum()
    penalty = penalty_tenths / 10

    def cost(edges: tuple[int, ...]) -> float:
        parts = [values[a:b] for a, b in itertools.pairwise(edges)]
        return sum(float(((part - part.mean()) ** 2).sum()) for part in parts) + penalty * (len(parts) - 1)

    shortest = module._SHORTEST
    every = [
        (0, *inner, 12)
        for count in range(3)
        for inner in itertools.combinations(range(shortest, 12), count)
        if all(b - a >= shortest for a, b in itertools.pairwise((0, *inner, 12)))
    ]
    assert cost(tuple(module._pelt(values, penalty))) == pytest.approx(min(map(cost, every)))


@given(st.lists(st.integers(0, 6), min_size=2, max_size=5), st.lists(st.integers(0, 6), min_size=2, max_size=6))
@settings(max_examples=50)
def test_the_rank_test_counts_what_counting_by_hand_counts(left: list[int], right: list[int]) -> None:
    """Without ties: every way to deal the ranks out, as the exact test means it."""
    a, b = len(left), len(right)
    ranks = range(a + b)
    mine = np.array([r + (0.1 if i % 2 else 0.0) for i, r in enumerate(ranks)])
    chosen = sorted({(x * 7) % (a + b) for x in left})[:a]
    chosen += [r for r in ranks if r not in chosen][: a - len(chosen)]
    others = [r for r in ranks if r not in chosen]
    counts = [
        sum(x > y for x in deal for y in ranks if y not in deal) for deal in itertools.combinations(ranks, a)
    ]  # fmt: skip
    here = sum(x > y for x in chosen for y in others)
    extreme = min(here, a * b - here)
    expected = min(2 * sum(count <= extreme for count in counts) / math.comb(a + b, a), 1.0)
    assert module._rank_test(mine[chosen], mine[others]) == pytest.approx(expected, abs=1e-9)


@given(seeds, st.floats(1e-4, 0.1))
@settings(max_examples=30)
def test_the_noise_of_normal_values_is_their_deviation_and_steps_do_not_raise_it(seed: int, cv: float) -> None:
    rng = np.random.default_rng(seed)
    values = cv * rng.standard_normal(400)
    assert noise_scale(values) == pytest.approx(cv, rel=0.25)
    values[200:] += 50 * cv
    assert noise_scale(values) == pytest.approx(cv, rel=0.25)

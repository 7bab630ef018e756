"""The parts of the detector, each against a slow, obvious twin or noise whose answer is known."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from warpwatch.dashboard.statistics.acceptance import rank_deviation
from warpwatch.dashboard.statistics.level_path import LevelGrid, cheapest, spans
from warpwatch.dashboard.statistics.noise_models import (
    _without_outliers,
    best_segmentation,
    jitter,
    lag_one,
    long_run_variance,
    trends,
    two_states,
)
from warpwatch.dashboard.statistics.segmentation import NoiseKind, fit_segments

seeds = st.integers(0, 2**32 - 1)


def _cheapest_of_all(grid: LevelGrid, losses: NDArray[np.float64], penalty: float) -> list[int]:
    """The edges of the cheapest path, value by value and level by level."""
    best = [(losses[grid.middle + grid.places[0] - level], ()) for level in range(grid.levels)]
    for t in range(1, len(grid.places)):
        cost, edges = min(best)
        best = [min(stay, (cost + penalty, (*edges, t))) for stay in best]
        best = [
            (so_far + losses[grid.middle + grid.places[t] - level], path) for level, (so_far, path) in enumerate(best)
        ]
    return list(min(best)[1])


@given(seeds, st.integers(8, 40), st.integers(8, 40), st.floats(0.08, 0.3))
@settings(max_examples=20)
def test_the_path_is_the_cheapest_of_all(seed: int, left: int, right: int, size: float) -> None:
    """Where the step is clear; the places tried first are four apart, so a small one may be missed by a place."""
    rng = np.random.default_rng(seed)
    values = 0.01 * rng.standard_normal(left + right)
    values[left:] += size
    grid = LevelGrid(values, 0.01)
    losses = -np.log(grid.prior)
    assert cheapest(grid, losses, 7.0)[0] == _cheapest_of_all(grid, losses, 7.0)


def _cost(grid: LevelGrid, losses: NDArray[np.float64], edges: list[int], levels: list[int], penalty: float) -> float:
    stretches = zip(spans(edges, len(grid.places)), levels, strict=True)
    return penalty * len(edges) + sum(
        float(losses[grid.middle + grid.places[start:end] - level].sum()) for (start, end), level in stretches
    )


def _least_cost_between_blocks(grid: LevelGrid, losses: NDArray[np.float64], penalty: float) -> float:
    """Of the paths that change before every fourth value only."""
    table = losses[grid.middle + grid.places[:, None] - np.arange(grid.levels)]
    best = np.zeros(grid.levels)
    for start in range(0, len(table), 4):
        if start:
            best = np.minimum(best, best.min() + penalty)
        best = best + table[start : start + 4].sum(axis=0)
    return float(best.min())


@given(seeds, st.integers(1, 90), st.floats(0.0, 0.05), st.floats(1.0, 8.0))
@settings(max_examples=150)
def test_no_path_that_changes_between_blocks_of_four_costs_less(
    seed: int, count: int, size: float, penalty: float
) -> None:
    rng = np.random.default_rng(seed)
    values = 0.01 * rng.standard_normal(count) + size * np.repeat(rng.integers(0, 3, 9), 10)[:count]
    grid = LevelGrid(values, 0.01)
    losses = -np.log(grid.prior)
    edges, levels = cheapest(grid, losses, penalty)
    assert edges == sorted(set(edges))
    assert all(0 < edge < count for edge in edges)
    least = _least_cost_between_blocks(grid, losses, penalty)
    assert _cost(grid, losses, edges, levels, penalty) <= least + 1e-9


def test_the_density_of_normal_residuals_is_normal() -> None:
    values = np.random.default_rng(1).standard_normal(4000)
    grid = LevelGrid(values, 1.0)
    density = grid.density(grid.place(values) - grid.place(np.zeros(1))[0])
    assert density.sum() == pytest.approx(1, abs=0.01)
    for z in (-1.0, 0.0, 1.0):
        at = grid.middle + round(z / grid.cell)
        assert density[at] / grid.cell == pytest.approx(math.exp(-z * z / 2) / math.sqrt(2 * math.pi), rel=0.15)


@given(st.lists(st.integers(0, 5), min_size=2, max_size=4), st.lists(st.integers(0, 5), min_size=2, max_size=4))
@settings(max_examples=60)
def test_the_rank_deviation_is_that_of_all_ways_to_deal_the_values_out(left: list[int], right: list[int]) -> None:
    both = [*left, *right]

    def wins(mine: list[int], others: list[int]) -> float:
        return sum((x > y) + 0.5 * (x == y) for x in mine for y in others)

    deals = [
        wins([both[i] for i in chosen], [both[i] for i in range(len(both)) if i not in chosen])
        for chosen in itertools.combinations(range(len(both)), len(left))
    ]
    deviation = float(np.std(deals))
    expected = abs(wins(left, right) - float(np.mean(deals))) / deviation if deviation > 1e-12 else 0.0
    assert rank_deviation(np.array(left, float), np.array(right, float)) == pytest.approx(expected, abs=1e-9)


def _kept(share: float, seed: int, length: int) -> NDArray[np.float64]:
    fresh, values = np.random.default_rng(seed).standard_normal(length), np.zeros(length)
    for i in range(1, length):
        values[i] = share * values[i - 1] + fresh[i]
    return values


@pytest.mark.parametrize("share", [0.0, 0.3, 0.6])
def test_residuals_that_hang_together_are_worth_less(share: float) -> None:
    """A mean of an AR(1) has (1 + r) / (1 - r) times the variance; twelve lags see most of it."""
    values = _kept(share, 2, 20_000)
    assert lag_one(values) == pytest.approx(share, abs=0.04)  # cut at two deviations, a little less
    assert long_run_variance(values) == pytest.approx((1 + share) / (1 - share), rel=0.15)


def test_one_outlier_does_not_look_like_correlation() -> None:
    values = np.random.default_rng(3).standard_normal(200)
    values[100] = 1e6
    assert abs(lag_one(values)) < 0.2


def test_the_kind_of_noise_is_recognised() -> None:
    rng = np.random.default_rng(4)
    count = 300
    axis = np.linspace(0, 1, count)
    states = np.cumsum(rng.random(count) > 0.9) % 2
    made = {
        NoiseKind.INDEPENDENT: rng.standard_normal(count),
        NoiseKind.AUTOREGRESSIVE: _kept(0.7, 5, count),
        NoiseKind.TWO_STATES: rng.standard_normal(count) + 8 * states,
        NoiseKind.DRIFTING: rng.standard_normal(count) + 8 * axis,
    }
    for kind, noise in made.items():
        values = 0.01 * noise
        assert best_segmentation(values, jitter(values)).kind is kind


@given(seeds)
@settings(max_examples=20)
def test_two_states_are_distinguished_from_a_step(seed: int) -> None:
    """States eight noises apart for a dozen values at a time, a step of 25 noises; both are read to the value."""
    rng = np.random.default_rng(seed)
    states = np.resize(np.repeat([0, 1], 12), 240)
    values = 0.01 * (rng.uniform(-1.5, 1.5, 240) + 8 * states + 25 * (np.arange(240) >= 130))
    scale = jitter(values)
    found = two_states(fit_segments(values, scale, 6.5), scale, 6.5)
    assert found is not None
    assert found.state is not None
    assert found.edges == [130]
    raised = found.state != 0
    assert (raised == (states == 1)).all() or (raised == (states == 0)).all()


@given(seeds, st.integers(40, 80), st.floats(-1.0, 1.0), st.floats(-1.0, 1.0))
@settings(max_examples=30)
def test_a_trend_is_the_least_squares_polynomial_fitted_with_the_levels(
    seed: int, edge: int, slope: float, bend: float
) -> None:
    """The step is far beyond doubt, and values are assumed to be so near their level that none is cut."""
    count, penalty = 120, 6.0
    axis = np.linspace(-1, 1, count)
    noise = np.random.default_rng(seed).choice([-1.0, 1.0], count)
    values = 0.01 * (noise + slope * axis + bend * axis**2 + 30 * (np.arange(count) >= edge))
    fitted = replace(fit_segments(values, 0.01, penalty), edges=[edge], excursion=np.zeros(count, dtype=bool))
    assume(np.allclose(_without_outliers(fitted), values, atol=1e-12))
    levels = (np.arange(count)[:, None] >= edge) == np.array([False, True])
    best: tuple[float, NDArray[np.float64] | None] = (np.inf, None)
    for degree in (0, 1, 2, 3):
        powers = axis[:, None] ** np.arange(1, degree + 1)
        coefficients, *_ = np.linalg.lstsq(np.hstack([powers, levels]), values, rcond=None)
        left = values - np.hstack([powers, levels]) @ coefficients
        cost = count / 2 * np.log(left @ left / (count - max(degree, 1) - 2))
        cost += 0.5 * (0.5 + degree) * np.log(count) if degree else 0.0
        drift = powers @ coefficients[:degree]
        best = min(best, (cost, drift - drift.mean() if degree else None), key=lambda each: each[0])
    found = next(trends(fitted, penalty), None)
    if best[1] is None or found is None:
        assert best[1] is None
        assert found is None
    else:
        assert found[0] - found[0].mean() == pytest.approx(best[1], abs=1e-9)


@given(seeds, st.lists(st.integers(1, 20), min_size=1, max_size=6))
def test_spans_cover_a_series_without_gaps(seed: int, lengths: list[int]) -> None:
    edges = list(itertools.accumulate(lengths[:-1]))
    found = spans(edges, sum(lengths))
    assert [end - start for start, end in found] == lengths
    assert [start for start, _ in found[1:]] == [end for _, end in found[:-1]]

"""The machine's part of a change, its share, and the false discovery rate: against slow twins and by simulation."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis.strategies import floats, integers, lists

from warpwatch.dashboard.statistics.distributions import q_values, selection_adjusted_p_value
from warpwatch.dashboard.statistics.machine_attribution import (
    WINDOW,
    Shift,
    control_shifts,
    is_machine_state,
    machine_shifts,
    remainder,
    share,
)


@given(integers(0, 10_000))
def test_a_controls_shift_is_the_difference_of_medians_around_the_range(seed: int) -> None:
    rng = np.random.default_rng(seed)
    levels = rng.normal(0, 1, (3, 30))
    levels[rng.random((3, 30)) < 0.3] = np.nan
    before, after = 12, 15
    found = control_shifts(levels, np.array([before]), np.array([after]))
    for row, shift in zip(levels, found.value[0], strict=True):
        old, new = row[before - WINDOW : before], row[after : after + WINDOW]
        old, new = old[~np.isnan(old)], new[~np.isnan(new)]
        expected = np.median(new) - np.median(old) if len(old) and len(new) else math.nan
        assert shift == pytest.approx(expected, nan_ok=True)


def test_a_control_that_was_not_measured_on_one_side_is_ignored() -> None:
    levels = np.array([[1.0] * 5 + [np.nan] * 5])
    assert np.isnan(control_shifts(levels, np.array([5, 0]), np.array([5, 0])).value).all()


def test_the_machines_part_covers_how_far_controls_differ() -> None:
    shifts = np.full((3, 20), np.nan)
    shifts[0, :2] = [0.05, 0.07]
    shifts[1] = [5.0] + [0.05] * 19
    shifts[2] = [0.05] * 16 + [0.0] * 4
    two, many, four_in_five = machine_shifts(shifts, np.where(np.isnan(shifts), np.nan, 0.0))
    assert (two.value, two.ci_low, two.ci_high) == (pytest.approx(0.06), 0.05, 0.07)
    assert (many.value, many.ci_low, many.ci_high) == (0.05, 0.05, 0.05)  # one in twenty may go its own way
    assert four_in_five.ci_low == 0.0


@given(lists(floats(-1, 1), min_size=1, max_size=30))
def test_the_machines_part_lies_between_the_tenths_of_its_controls(shifts: list[float]) -> None:
    (part,) = machine_shifts(np.array([shifts]), np.full((1, len(shifts)), 0.01))
    edges = (0.1, 0.9) if len(shifts) >= 5 else (0, 1)
    reach = 1.96 * 0.01 / math.sqrt(len(shifts))
    low, high = np.quantile(shifts, edges)
    assert (part.value, part.ci_low, part.ci_high) == pytest.approx((np.median(shifts), low - reach, high + reach))


@given(floats(0.01, 1), floats(-1, 1))
def test_share_and_remainder_do_not_depend_on_the_direction(change: float, part: float) -> None:
    own, machine = (Shift(value=x, ci_low=x - 0.002, ci_high=x + 0.004) for x in (change, part))
    mirrored = [Shift(value=-each.value, ci_low=-each.ci_high, ci_high=-each.ci_low) for each in (own, machine)]
    one, other = share(own, machine), share(*mirrored)
    assert (one.value, one.ci_low, one.ci_high) == pytest.approx((other.value, other.ci_low, other.ci_high))
    one, other = remainder(own, machine), remainder(*mirrored)
    assert (one.value, one.ci_low, one.ci_high) == pytest.approx((-other.value, -other.ci_high, -other.ci_low))


@pytest.mark.parametrize(
    ("part", "machines"),
    [
        ((0.1, 0.09, 0.11), True),
        ((0.1, 0.04, 0.16), False),
        ((0.06, 0.055, 0.065), False),
        ((0.097, 0.096, 0.098), True),
        ((0.15, 0.14, 0.16), True),
        ((-0.1, -0.11, -0.09), False),
    ],
)
def test_a_change_is_the_machines_if_it_surely_did_half_and_no_significant_rest_is_left(
    part: tuple[float, float, float], machines: bool
) -> None:
    own = Shift(value=0.1, ci_low=0.098, ci_high=0.102)
    machine = Shift(value=part[0], ci_low=part[1], ci_high=part[2])
    assert is_machine_state(share(own, machine), remainder(own, machine), 0.01) is machines


@given(lists(floats(0, 1), max_size=30), integers(30, 60))
def test_q_values_are_what_benjamini_and_hochbergs_procedure_rejects_at(chances: list[float], family: int) -> None:
    found = q_values(chances, family)
    for level in (0.01, 0.05, 0.3):
        ordered = sorted(chances)
        passing = [k for k, chance in enumerate(ordered, start=1) if chance * family / k <= level]
        rejected = ordered[: max(passing)] if passing else []
        assert sum(q <= level for q in found) == len(rejected)


def test_more_changes_than_series_are_refused() -> None:
    with pytest.raises(ValueError, match="family of 1 series"):
        q_values([0.1, 0.2], 1)


def test_of_the_changes_taken_together_no_more_than_the_rate_are_false() -> None:
    rng = np.random.default_rng(6)
    shares = []
    for _ in range(400):
        p = rng.random(200)
        p[:10] *= 1e-5  # ten real ones
        taken = np.array(q_values(p.tolist(), 200)) <= 0.1
        shares.append(taken[10:].sum() / max(taken.sum(), 1))
    assert 0.08 < np.mean(shares) < 0.11  # 0.095, by simulation to within 0.005


def test_the_chance_of_the_best_place_is_that_of_series_without_a_change() -> None:
    """Of normal noise: the formula lies above what is simulated, and not far above."""
    rng = np.random.default_rng(8)
    count = 100
    k = np.arange(1, count)
    best = []
    for _ in range(4000):
        walk = np.cumsum(rng.normal(0, 1, count))
        z = (walk[:-1] - k / count * walk[-1]) / np.sqrt(k * (count - k) / count)
        best.append(0.5 * float(np.abs(z).max()) ** 2)
    for share_of_them in (0.1, 0.02):
        p_value = selection_adjusted_p_value(float(np.quantile(best, 1 - share_of_them)), count)
        assert share_of_them * 0.8 < p_value < share_of_them * 2.5


@given(floats(0, 1e6), integers(0, 10_000))
def test_a_chance_is_one(nats: float, count: int) -> None:
    assert 0 <= selection_adjusted_p_value(nats, count) <= 1

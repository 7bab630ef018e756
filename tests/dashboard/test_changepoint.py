"""The detector: properties that hold for any series, and noise of many kinds."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from warpwatch.dashboard.statistics.changepoint import Changepoint, find_changes
from warpwatch.dashboard.statistics.noise import noise_scale

FloatArray = NDArray[np.float64]

seeds = st.integers(0, 2**32 - 1)


def changepoints(values: list[float], *, smallest_change: float = 0.0) -> tuple[Changepoint, ...]:
    return find_changes(values, smallest_change=smallest_change).changes


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
    assert found.ci_low < found.magnitude < found.ci_high


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


def test_changes_below_the_threshold_are_not_reported() -> None:
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


@given(seeds, st.floats(1e-4, 0.1))
@settings(max_examples=30)
def test_the_noise_of_normal_values_is_their_deviation_and_steps_do_not_raise_it(seed: int, cv: float) -> None:
    rng = np.random.default_rng(seed)
    values = cv * rng.standard_normal(400)
    assert noise_scale(values) == pytest.approx(cv, rel=0.25)
    values[200:] += 50 * cv
    assert noise_scale(values) == pytest.approx(cv, rel=0.25)


def _rate(make: Callable[[np.random.Generator], FloatArray], count: int = 60) -> float:
    """Changes reported per series of pure noise."""
    return sum(len(changepoints(make(np.random.default_rng(seed)).tolist())) for seed in range(count)) / count


def _sticky(rng: np.random.Generator, length: int = 250, stay: float = 0.88) -> FloatArray:
    """A machine that sits in one of two states, four noises apart, for eight values at a time."""
    state = np.cumsum(rng.random(length) > stay) % 2
    return np.asarray(1 + 0.01 * (rng.standard_normal(length) + 4 * state))


def _autoregressive(rng: np.random.Generator, length: int = 250, kept: float = 0.6) -> FloatArray:
    fresh, noise = rng.standard_normal(length), np.empty(length)
    noise[0] = fresh[0]
    for i in range(1, length):
        noise[i] = kept * noise[i - 1] + fresh[i]
    return np.asarray(1 + 0.01 * noise)


def _drifting(rng: np.random.Generator, length: int = 250) -> FloatArray:
    way = np.linspace(0, 1, length)
    return np.asarray(1 + 0.01 * (rng.standard_normal(length) + 4 * way + 2 * np.sin(7 * way + rng.random())))


def _bursts(rng: np.random.Generator, length: int = 250) -> FloatArray:
    values = 1 + 0.01 * rng.standard_normal(length)
    for start in range(40, length - 20, 60):
        values[start : start + int(rng.integers(3, 7))] *= 1.1
    return np.asarray(values)


NOISES = {
    "heavy tails": lambda rng: 1 + 0.01 * rng.standard_t(3, 250),
    "skewed": lambda rng: 1 + 0.01 * rng.gamma(1.5, 1, 250),
    "two modes": lambda rng: 1 + 0.01 * (rng.standard_normal(250) + 4 * (rng.random(250) < 0.25)),
    "rounded": lambda rng: np.round(1 + 0.01 * rng.standard_normal(250), 2),
    "two states": _sticky,
    "autoregressive": _autoregressive,
    "drifting": _drifting,
    "bursts": _bursts,
}


@pytest.mark.parametrize("noise", NOISES)
def test_noise_of_any_kind_is_no_change(noise: str) -> None:
    """At most one in 20 series of 250 values: one change in 5,000 points. A drift may look like steps more often."""
    assert _rate(NOISES[noise]) <= (0.25 if noise == "drifting" else 0.05)


@pytest.mark.parametrize("noise", NOISES)
def test_a_step_is_found_in_noise_of_any_kind(noise: str) -> None:
    """One of 6 % at the middle, in nine of ten series at least, and hardly any other."""
    found = []
    for seed in range(30):
        values = NOISES[noise](np.random.default_rng(seed))
        values[125:] *= 1.06
        found.append([c.index for c in changepoints(values.tolist())])
    assert sum(any(abs(index - 125) <= 5 for index in each) for each in found) >= 27
    others = sum(any(abs(index - 125) > 5 for index in each) for each in found)
    assert others <= {"drifting": 6, "two states": 4}.get(noise, 1)


def test_a_noise_with_an_edge_hides_less_than_a_normal_one() -> None:
    """A step of half a standard deviation, 100 values on each side: exponential noise has a sharp lower edge."""
    found = {"normal": 0, "exponential": 0}
    for seed in range(40):
        rng = np.random.default_rng(seed)
        for kind, noise in (("normal", rng.standard_normal(200)), ("exponential", rng.exponential(size=200))):
            values = 1 + 0.01 * noise
            values[100:] += 0.005
            found[kind] += any(abs(c.index - 100) <= 5 for c in changepoints(values.tolist()))
    assert found["exponential"] >= 20
    assert found["exponential"] > 2 * found["normal"]


def test_a_level_that_returns_within_a_dozen_values_was_an_excursion() -> None:
    calm = _noisy(7, [(120, 1.0)])
    for length, count in ((12, 0), (30, 2)):
        values = [value * (1.1 if 60 <= place < 60 + length else 1.0) for place, value in enumerate(calm)]
        assert len(changepoints(values)) == count


def test_an_excursion_is_no_part_of_the_adjacent_level() -> None:
    values = _noisy(7, [(40, 1.0), (60, 1.2)])
    values[25:35] = [value * 1.5 for value in values[25:35]]
    (change,) = changepoints(values)
    assert (change.before, change.after) == (pytest.approx(1.0, abs=0.01), pytest.approx(1.2, abs=0.01))
    assert change.after / change.before - 1 == pytest.approx(change.magnitude)


def test_a_start_that_ends_in_strays_was_the_machine_being_set_up() -> None:
    """Sixteen values three noises lower, a burst, then rest; without the burst the same step is reported."""
    calm = _noisy(11, [(16, 0.97), (100, 1.0)])
    burst = [value * (1.3 if 20 <= place < 26 or place == 16 else 1.0) for place, value in enumerate(calm)]
    assert [c.index for c in changepoints(calm)] == pytest.approx([16], abs=2)
    assert changepoints(burst) == ()


def test_a_level_at_the_end_is_reported_once_it_has_lasted() -> None:
    values = _noisy(8, [(80, 1.0), (40, 1.08)])
    first_reported = next(count for count in range(80, 121) if changepoints(values[:count]))
    assert 80 + 4 <= first_reported <= 80 + 10


def test_the_set_of_places_holds_the_true_one_in_nineteen_of_twenty() -> None:
    """Steps of one and a half noises; the set is a twentieth of the series or less where it is reported."""
    inside = detected = 0
    for seed in range(120):
        rng = np.random.default_rng(seed)
        values = 1 + 0.01 * rng.standard_normal(120)
        values[60:] += 0.015
        for change in changepoints(values.tolist()):
            detected += 1
            inside += change.first <= 60 <= change.last
            assert change.first <= change.index <= change.last
    assert detected >= 100
    assert inside / detected >= 0.9  # 95 % at known levels; estimated ones and the selection of changes take some


def test_a_change_among_more_places_moves_with_all_its_places() -> None:
    (change,) = changepoints(_noisy(9, [(30, 1.0), (30, 1.1)]))
    places = [2 * place for place in range(60)]
    moved = change.among(places)
    assert (moved.index, moved.first, moved.last) == (2 * change.index, 2 * change.first, 2 * change.last)


@pytest.mark.parametrize(
    "values",
    [
        [1e-300] * 10 + [1e300] * 10,
        [1e300] * 10 + [1e-300] * 10,
        [0.0] * 10 + [1e300] * 10,
        [-5e-324] * 12 + [1.0] * 12,
        [1e308] * 20 + [1.7e308] * 20,
        [5e-324] * 20 + [1.0] * 20,
    ],
)
def test_every_reported_figure_is_finite_however_far_values_lie_apart(values: list[float]) -> None:
    for change in changepoints(values):
        figures = [change.before, change.after, change.magnitude, change.ci_low, change.ci_high, change.p_value]
        assert np.isfinite(figures).all()


def test_a_short_history_of_large_steps_has_them_all() -> None:
    """Times to compile of mjwarp's ApptronikApolloHfield: 7 commits at 42 s, 12 at 102, 13 at 44, then 62 and more."""
    rng = np.random.default_rng(3)
    levels = np.repeat([42.0, 102.0, 44.0, 62.0], [7, 12, 13, 31])
    found = changepoints((levels * np.exp(rng.normal(0, 0.03, len(levels)))).tolist())
    assert [change.index for change in found] == [7, 19, 32]


def test_two_spikes_hide_no_doubling_in_a_short_level() -> None:
    """As in mjwarp's Humanoid: 9 commits at 12 s, 17 at 26, of which two fell back."""
    rng = np.random.default_rng(4)
    values = np.repeat([12.0, 26.0, 38.0], [9, 17, 30]) * np.exp(rng.normal(0, 0.03, 56))
    values[[10, 16]] = 11.0, 13.0
    assert [change.index for change in changepoints(values.tolist())] == [9, 26]

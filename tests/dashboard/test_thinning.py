"""What is left out of a long history is nothing that a reader would see."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from warpwatch.dashboard.statistics.levels import medians_of_groups, segments, thin, thin_band

Series = tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.int64], NDArray[np.bool_]]


@st.composite
def histories(draw: st.DrawFn) -> Series:
    """Places that do not fall, numbers of which some are missing, why these are, and what is marked."""
    seed = draw(st.integers(0, 2**32 - 1))
    count = draw(st.integers(0, 3000))
    rng = np.random.default_rng(seed)
    place = np.cumsum(rng.integers(0, draw(st.integers(1, 3)) + 1, count))
    value = rng.choice(
        [rng.normal(size=count), rng.integers(0, 3, count).astype(float)][draw(st.integers(0, 1))], count
    )
    missing = rng.random(count) < draw(st.sampled_from([0.0, 0.02, 0.9]))
    status = np.where(missing, rng.integers(1, 5, count), 0)
    return place, np.where(missing, np.nan, value), status, rng.random(count) < 0.005


MOST = st.sampled_from([4, 40, 200, 1000])


@given(histories(), MOST)
def test_extremes_ends_and_what_is_marked_stay_and_the_rest_is_bounded(history: Series, most: int) -> None:
    place, value, status, marked = history
    kept = thin(place, value, status, marked, most=most)
    assert np.array_equal(kept, np.unique(kept))
    assert set(np.flatnonzero(marked)) <= set(kept.tolist()) or len(place) <= most
    numbers = np.flatnonzero(~np.isnan(value))
    if len(numbers):
        assert {numbers[0], numbers[-1]} <= set(kept.tolist())
        assert np.nanmax(value[kept]) == np.nanmax(value)
        assert np.nanmin(value[kept]) == np.nanmin(value)
    for each in np.unique(status):
        assert (status[kept] == each).any()
    # Four numbers of each stretch, the first and last of each of four reasons, and the marks.
    assert len(kept) <= max(most * 3, 12) + marked.sum()


@given(histories(), MOST)
def test_each_stretch_keeps_its_own_extremes(history: Series, most: int) -> None:
    place, value, status, marked = history
    if len(place) <= most:
        assert len(thin(place, value, status, marked, most=most)) == len(place)
        return
    kept = thin(place, value, status, marked, most=most)
    stretch = (place - place[0]) * max(most // 4, 1) // (place[-1] - place[0] + 1)
    for number in np.unique(stretch[~np.isnan(value)]):
        mine = stretch == number
        assert np.nanmax(value[kept][mine[kept]]) == np.nanmax(value[mine])
        assert np.nanmin(value[kept][mine[kept]]) == np.nanmin(value[mine])


@given(histories(), MOST, st.integers(0, 3000), st.integers(0, 400))
def test_a_window_is_drawn_whole_as_soon_as_it_has_room(history: Series, most: int, first: int, width: int) -> None:
    place, value, status, marked = history
    window = (first, first + width)
    inside = np.flatnonzero((window[0] <= place) & (place <= window[1]))
    kept = thin(place, value, status, marked, most=most, window=window)
    if len(inside) <= round(most * 0.75):
        assert set(inside.tolist()) <= set(kept.tolist())


@given(histories(), MOST)
def test_a_band_lies_between_the_edges_that_it_is_made_of(history: Series, most: int) -> None:
    place, value, _, _ = history
    known = ~np.isnan(value)
    place, low = place[known], value[known]
    middle, lower, upper = thin_band(place, low, low + 1, most=most)
    assert len(middle) == len(lower) == len(upper) <= max(most, len(place) if len(place) <= most else 0)
    assert upper == pytest.approx(lower + 1)
    if len(low):
        assert low.min() <= lower.min() <= lower.max() <= low.max()


@given(st.lists(st.tuples(st.integers(0, 5), st.floats(-1e6, 1e6)), min_size=1))
def test_medians_of_groups_are_those_of_each_group_alone(pairs: list[tuple[int, float]]) -> None:
    present = {group: number for number, group in enumerate(sorted({group for group, _ in pairs}))}
    groups = np.array([present[group] for group, _ in pairs])
    values = np.array([value for _, value in pairs])
    expected = [np.median(values[groups == number]) for number in range(len(present))]
    assert medians_of_groups(groups, values) == pytest.approx(expected)


def test_levels_go_from_edge_to_edge_card_by_card() -> None:
    values = np.array([1.0, 1.1, 1.0, 3.0, 2.0, 2.0])
    found = segments(values, np.array([1, 1, 1, 2, 1, 1]), np.array([4]))
    assert found == [(0, 2, 1.0, 3), (3, 3, 3.0, 1), (4, 5, 2.0, 2)]
    assert segments(np.empty(0), np.empty(0, dtype=np.int64), np.array([2])) == []

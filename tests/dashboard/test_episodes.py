"""Episodes: classified by kind, found where they were planted, and blamed on no commit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis.strategies import integers, sampled_from

from warpwatch.dashboard.model.verdict import ChangeKind
from warpwatch.dashboard.statistics.changepoint import Detection, find_changes
from warpwatch.dashboard.statistics.level_path import Floats


def _quiet(count: int = 200, seed: int = 1) -> Floats:
    return np.asarray(np.exp(np.random.default_rng(seed).normal(0, 0.005, count)))


def _kinds(detection: Detection) -> set[ChangeKind]:
    return {each.kind for each in detection.episodes}


@given(place=integers(20, 170), length=integers(1, 8), height=sampled_from([0.8, 1.2, 1.5]))
def test_a_spike_that_returned_is_a_transient_where_it_was(place: int, length: int, height: float) -> None:
    values = _quiet()
    values[place : place + length] *= height
    detection = find_changes(values.tolist())
    assert detection.changes == ()
    (episode,) = [each for each in detection.episodes if each.kind is ChangeKind.TRANSIENT]
    assert (episode.first, episode.last) == (place, place + length - 1)
    assert episode.magnitude == pytest.approx(height - 1, abs=0.03)
    assert episode.ci_low < episode.magnitude < episode.ci_high
    assert episode.after / episode.before - 1 == pytest.approx(episode.magnitude)


def test_a_step_is_no_transient_and_neither_are_values_that_have_not_returned_yet() -> None:
    values = _quiet()
    values[100:] *= 1.2
    values[198:] *= 1.5
    detection = find_changes(values.tolist())
    assert [change.index for change in detection.changes] == [100]
    assert detection.episodes == ()


def test_stays_in_the_rarer_of_two_states_are_reported_one_by_one() -> None:
    values = _quiet()
    stays = [(30, 45), (70, 80), (110, 135), (150, 165)]
    for start, end in stays:
        values[start:end] *= 1.06
    detection = find_changes(values.tolist())
    assert detection.changes == ()
    states = [each for each in detection.episodes if each.kind is ChangeKind.MACHINE_STATE]
    assert [(each.first, each.last + 1) for each in states] == pytest.approx(np.array(stays), abs=2)
    assert all(each.magnitude == pytest.approx(0.06, abs=0.01) for each in states)
    assert all(each.before == pytest.approx(1.0, abs=0.005) for each in states)


def test_where_the_upper_state_is_the_usual_one_the_stays_below_are_reported() -> None:
    values = _quiet() * 1.06
    for start, end in [(30, 45), (70, 80), (110, 135), (150, 165)]:
        values[start:end] /= 1.06
    states = find_changes(values.tolist()).episodes
    assert len(states) == 4
    assert all(each.before == pytest.approx(1.06, abs=0.005) for each in states)
    assert all(each.after == pytest.approx(1.0, abs=0.005) for each in states)


def test_a_slow_drift_is_reported_with_its_span_and_blames_no_commit() -> None:
    values = _quiet(300) * np.exp(np.linspace(0, 0.1, 300))
    detection = find_changes(values.tolist())
    assert detection.changes == ()
    (drift,) = detection.episodes
    assert drift.kind is ChangeKind.DRIFT
    assert drift.magnitude == pytest.approx(0.105, abs=0.02)
    assert drift.last - drift.first > 250
    assert (drift.before, drift.after) == (pytest.approx(1.0, abs=0.01), pytest.approx(1.105, abs=0.01))


@given(sampled_from([2.0**-20, 2.0**10]))
def test_episodes_do_not_depend_on_the_unit(scale: float) -> None:
    values = _quiet()
    values[50:53] *= 1.3
    one, other = (find_changes((values * factor).tolist()).episodes for factor in (1.0, scale))
    assert [(each.first, each.last, each.kind) for each in one] == [
        (each.first, each.last, each.kind) for each in other
    ]
    assert [each.magnitude for each in one] == pytest.approx([each.magnitude for each in other])


def test_episodes_below_the_threshold_are_not_reported() -> None:
    values = _quiet()
    values[50:53] *= 1.08
    assert _kinds(find_changes(values.tolist())) == {ChangeKind.TRANSIENT}
    assert find_changes(values.tolist(), smallest_change=0.02).episodes == ()


def test_values_at_and_below_zero_have_episodes_too() -> None:
    values = np.random.default_rng(2).normal(0, 1.0, 200)
    values[90:93] = 40.0
    (episode,) = find_changes(values.tolist()).episodes
    assert (episode.first, episode.last, episode.after) == (90, 92, pytest.approx(40.0, abs=1.0))


def test_a_constant_series_and_one_too_short_show_nothing() -> None:
    assert find_changes([1.0] * 50) == find_changes([1.0, 5.0, 1.0]) == Detection()


def test_an_overshoot_is_reported_in_addition_to_its_step() -> None:
    """ApptronikApolloFlat's time to compile (mjwarp): twelve commits at three times the level that it came to."""
    values = _quiet()
    values[100:] *= 1.5
    values[100:112] *= 2
    detection = find_changes(values.tolist())
    assert [change.index for change in detection.changes] == [100]
    (episode,) = detection.episodes
    assert (episode.kind, episode.first, episode.last) == (ChangeKind.TRANSIENT, 100, 111)
    assert episode.magnitude == pytest.approx(1.0, abs=0.03)
    assert episode.before == pytest.approx(1.5, rel=0.01)


def test_values_on_the_way_from_one_level_to_the_next_are_no_transient() -> None:
    values = _quiet()
    values[100:] *= 2
    values[98:100] *= 1.5
    detection = find_changes(values.tolist())
    assert len(detection.changes) == 1
    assert detection.episodes == ()

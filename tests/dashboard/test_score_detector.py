"""The detector on labelled histories of others, and what counts as a hit."""

from pathlib import Path

import numpy as np
import pytest

from tools.score_detector import annotated_f1, covering, detected, f1, hits, load, load_annotated, replay, reported

LABELLED = Path(__file__).resolve().parents[3] / "shared" / "data" / "changepoints" / "data"
labelled = pytest.mark.skipif(not LABELLED.is_dir(), reason="the labelled histories are not on this machine")


def test_a_reported_change_counts_for_one_true_one_within_five_points() -> None:
    assert hits([50], [45, 52]) == 1
    assert hits([50, 54], [52]) == 1
    assert hits([50, 100], [44, 105]) == 1
    assert f1([{"cps": [10, 60]}, {"cps": []}], [[11], [30]]) == (0.5, 0.5, 0.5)


def test_a_replay_counts_each_false_report_once_and_measures_the_delay() -> None:
    wave = [0.0, 0.01, -0.01, 0.005, -0.005]
    values = [1.0 + 0.3 * (place >= 60) + wave[place % 5] for place in range(90)]
    false, delays, points = replay({"values": values, "cps": [60]})
    assert (false, points) == (0, 60)
    assert delays[0] is not None
    assert 1 <= delays[0] <= 10


def test_annotations_are_scored_as_in_the_turing_benchmark() -> None:
    """By hand: of the reports 0, 48 and 80, the first two are annotated; A is found whole, of B two of three."""
    annotations = [[50], [50, 120]]
    assert annotated_f1(annotations, [48, 80]) == pytest.approx(2 / (3 / 2 + 1 / (5 / 6)))
    assert covering([[50]], [50], 100) == 1
    assert covering([[50]], [], 100) == pytest.approx(0.5)


def test_a_set_of_annotations_is_read_where_there_is_one(tmp_path: Path) -> None:
    assert load_annotated(tmp_path, "tcpd") is None
    (tmp_path / "tcpd.json").write_text('{"nile": {"values": [null, 1, null, 3], "annotations": {"1": [2]}}}')
    assert load_annotated(tmp_path, "tcpd") == [{"values": [1, 1, 1, 3], "annotations": {"1": [2]}}]


def test_reports_have_a_minimum_change_that_follows_the_noise() -> None:
    """4 % noise and a step of 1.6 %: significant with a thousand values on either side, but hardly visible."""
    noise = np.random.default_rng(1).normal(0, 0.04, 2000)
    values = np.exp(noise + 0.016 * (np.arange(2000) >= 1000)).tolist()
    assert len(detected(values)) == 1
    assert reported(values) == []


# Every eighth series of each set; the whole is scored by `python -m tools.score_detector`.
@labelled
@pytest.mark.parametrize(("name", "least"), [("synth", 0.83), ("asvnoise", 0.80)])
def test_it_finds_what_is_labelled(name: str, least: float) -> None:
    series = load(LABELLED, name)[::8]
    assert f1(series, [detected(each["values"]) for each in series])[2] >= least


@labelled
@pytest.mark.parametrize(("name", "most"), [("null", 0.2), ("asvnull", 0.2)])
def test_it_is_quiet_where_nothing_changed(name: str, most: float) -> None:
    series = load(LABELLED, name)[::4]
    false = sum(len(detected(each["values"])) for each in series)
    assert 1000 * false / sum(len(each["values"]) for each in series) <= most

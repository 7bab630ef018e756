"""Two commits compared: the verdicts for real changes, for none, and for too little data."""

import math
import statistics

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warpwatch.dashboard.model.comparison import Estimate
from warpwatch.dashboard.model.metric import Better
from warpwatch.dashboard.model.verdict import Verdict
from warpwatch.dashboard.statistics.comparison import (
    RunValue,
    common_drift,
    compare,
    compare_exact,
    family_verdicts,
)
from warpwatch.dashboard.statistics.distributions import critical_value, t_p_value
from warpwatch.dashboard.statistics.noise import Noise

NOISE = Noise(scale=0.004)


def _runs(*values: float, scatter: float = 0.0) -> list[RunValue]:
    return [RunValue(value=v, q25=v * (1 - scatter / 2), q75=v * (1 + scatter / 2), sample_count=50) for v in values]


def _verdict(comparison: Estimate | None, better: Better = Better.LOWER, threshold: float = 0.02) -> Verdict:
    return family_verdicts([comparison], [better], threshold=threshold)[0]


@pytest.mark.parametrize(
    ("change", "better", "verdict"),
    [
        (0.041, Better.LOWER, Verdict.REGRESSED),
        (-0.041, Better.LOWER, Verdict.IMPROVED),
        (-0.041, Better.HIGHER, Verdict.REGRESSED),
        (0.041, Better.HIGHER, Verdict.IMPROVED),
        (0.001, Better.LOWER, Verdict.UNCHANGED),
        (0.015, Better.LOWER, Verdict.UNCHANGED),  # real, and too small to matter
    ],
)
def test_a_quiet_series_gets_a_clear_verdict(change: float, better: Better, verdict: Verdict) -> None:
    comparison = compare(_runs(1.0), _runs(1 + change), history_noise=NOISE, threshold=0.02)
    assert comparison is not None
    assert comparison.change == pytest.approx(change)
    assert comparison.ci_low < change < comparison.ci_high
    assert _verdict(comparison, better) is verdict


def test_a_noisy_series_is_inconclusive_and_says_how_many_runs_it_needs() -> None:
    comparison = compare(_runs(1.0), _runs(1.03), history_noise=Noise(scale=0.03), threshold=0.02)
    assert comparison is not None
    assert _verdict(comparison) is Verdict.INCONCLUSIVE
    more = comparison.runs_needed
    assert more > 0
    base, head = _runs(*[1.0] * (1 + more)), _runs(*[1.001] * (1 + more))
    enough = compare(base, head, history_noise=Noise(scale=0.03), threshold=0.02)
    assert enough is not None
    assert enough.runs_needed == 0
    assert _verdict(enough) is Verdict.UNCHANGED


def test_two_single_runs_without_history_do_not_resolve_three_percent() -> None:
    """However tight the samples are: nothing says how the next process would differ."""
    comparison = compare(_runs(1.0, scatter=0.001), _runs(1.03, scatter=0.001), history_noise=None, threshold=0.02)
    assert _verdict(comparison) is Verdict.INCONCLUSIVE


def test_two_single_runs_without_history_resolve_a_doubling() -> None:
    comparison = compare(_runs(1.0, scatter=0.05), _runs(2.0, scatter=0.05), history_noise=None, threshold=0.02)
    assert _verdict(comparison) is Verdict.REGRESSED


def test_runs_that_scatter_widen_the_interval() -> None:
    quiet = compare(_runs(1.0, 1.001), _runs(1.05, 1.051), history_noise=NOISE, threshold=0.02)
    loud = compare(_runs(1.0, 1.06), _runs(1.02, 1.08), history_noise=NOISE, threshold=0.02)
    assert quiet is not None
    assert loud is not None
    assert loud.noise > 0.03 > quiet.noise
    assert _verdict(quiet) is Verdict.REGRESSED
    assert _verdict(loud) is Verdict.INCONCLUSIVE


def test_the_machines_drift_is_taken_off() -> None:
    comparison = compare(_runs(1.0), _runs(1.05), history_noise=NOISE, threshold=0.02, drift=0.05)
    assert comparison is not None
    assert comparison.change == pytest.approx(0.0, abs=1e-9)


@given(st.floats(1e-9, 1e3), st.floats(0.5, 2.0), st.sampled_from([2.0**-20, 2.0**8]))
def test_the_unit_does_not_matter(value: float, ratio: float, scale: float) -> None:
    one = compare(_runs(value), _runs(value * ratio), history_noise=NOISE, threshold=0.02)
    other = compare(_runs(value * scale), _runs(value * ratio * scale), history_noise=NOISE, threshold=0.02)
    assert one is not None
    assert other is not None
    assert (one.change, one.ci_low, one.p_value) == pytest.approx((other.change, other.ci_low, other.p_value))


@given(st.floats(0.5, 2.0))
def test_base_and_head_exchanged_give_the_inverse_ratio(ratio: float) -> None:
    one = compare(_runs(1.0), _runs(ratio), history_noise=NOISE, threshold=0.02)
    other = compare(_runs(ratio), _runs(1.0), history_noise=NOISE, threshold=0.02)
    assert one is not None
    assert other is not None
    assert (1 + one.change) * (1 + other.change) == pytest.approx(1)
    assert one.p_value == pytest.approx(other.p_value)


def test_a_family_of_unchanged_series_gives_hardly_any_false_alarm() -> None:
    """200 families of 50 series each, nothing changed: at most 5 % of families may have an alarm, and chance."""
    rng = np.random.default_rng(1)
    alarms = 0
    for _ in range(200):
        pairs = np.exp(0.02 * rng.standard_normal((50, 2)))
        found = [compare(_runs(a), _runs(b), history_noise=Noise(scale=0.02), threshold=0.02) for a, b in pairs]
        verdicts = family_verdicts(found, [Better.LOWER] * 50, threshold=0.02)
        alarms += any(v in {Verdict.REGRESSED, Verdict.IMPROVED} for v in verdicts)
    assert alarms <= 20


def test_zero_to_zero_is_no_change_and_zero_to_something_has_no_ratio() -> None:
    assert _verdict(compare(_runs(0.0), _runs(0.0), history_noise=None, threshold=0.02)) is Verdict.UNCHANGED
    assert compare(_runs(0.0), _runs(64.0), history_noise=None, threshold=0.02) is None


def test_nothing_to_compare_is_missing() -> None:
    assert _verdict(compare([], _runs(1.0), history_noise=NOISE, threshold=0.02)) is Verdict.MISSING


@given(st.integers(3, 40), st.floats(0.02, 0.2), st.integers(0, 2**32 - 1))
@settings(max_examples=50)
def test_controls_that_agree_show_the_machines_drift(count: int, drift: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    changes = [(1 + drift) * (1 + 0.001 * x) - 1 for x in rng.standard_normal(count)]
    assert common_drift(changes) == pytest.approx(drift, abs=0.005)


@pytest.mark.parametrize("changes", [[], [0.05], [0.05, 0.05], [0.05, -0.04, 0.03, -0.06, 0.01], [0.0] * 5])
def test_controls_that_are_few_or_disagree_show_none(changes: list[float]) -> None:
    assert common_drift(changes) == 0.0


@pytest.mark.parametrize(("df", "quantile"), [(1, 12.7062), (2, 4.30265), (3, 3.18245), (10, 2.22814), (30, 2.04227)])
def test_students_quantile_is_the_tables(df: int, quantile: float) -> None:
    assert critical_value(0.05, df) == pytest.approx(quantile, abs=1e-4)


@given(st.floats(0, 8), st.integers(1, 12))
@settings(max_examples=40)
def test_students_tail_is_the_densitys_integral(t: float, df: int) -> None:
    factor = math.gamma((df + 1) / 2) / math.sqrt(df * math.pi) / math.gamma(df / 2)
    grid = np.linspace(0, t, 4001)
    density = factor * (1 + grid**2 / df) ** (-(df + 1) / 2)
    inside = float(((density[1:] + density[:-1]) / 2 * np.diff(grid)).sum())
    assert t_p_value(t, df) == pytest.approx(1 - 2 * inside, abs=1e-5)


def test_the_scatter_of_runs_is_pooled_over_both_commits() -> None:
    base, head = [1.0, 1.02, 0.99], [1.1, 1.13, 1.12]
    comparison = compare(_runs(*base), _runs(*head), history_noise=None, threshold=0.02)
    assert comparison is not None
    variances = [statistics.variance([math.log(v) for v in side]) for side in (base, head)]
    assert comparison.noise == pytest.approx(math.sqrt(sum(variances) / 2))


@pytest.mark.parametrize(
    ("base", "head", "verdict", "change"),
    [
        (3.0, 3.0, Verdict.UNCHANGED, 0.0),
        (3.0, 4.0, Verdict.REGRESSED, 1 / 3),
        (0.0, 4096.0, Verdict.REGRESSED, 1.0),
        (2.0, 1.0, Verdict.IMPROVED, -0.5),
        (1000.0, 1001.0, Verdict.UNCHANGED, 0.001),  # real, and too small to matter
    ],
)
def test_what_is_exact_is_certain_after_one_run(base: float, head: float, verdict: Verdict, change: float) -> None:
    compared = compare_exact(_runs(base), _runs(head))
    assert compared is not None
    assert (compared.change, compared.ci_low, compared.ci_high, compared.runs_needed) == (
        pytest.approx(change),
        pytest.approx(change),
        pytest.approx(change),
        0,
    )
    assert _verdict(compared) is verdict


def test_what_differs_between_runs_of_a_commit_is_not_exact() -> None:
    assert compare_exact(_runs(3.0, 4.0), _runs(4.0, 4.0)) is None
    assert compare_exact(_runs(3.0, 3.0), _runs(4.0, 4.0)) is not None
    assert compare_exact((), _runs(4.0)) is None


def test_exact_series_make_no_family_larger() -> None:
    """A change at the edge of the family's certainty stays one with a hundred counted series in the same family."""
    edge = compare(_runs(1.0), _runs(1.025), history_noise=Noise(scale=0.0065), threshold=0.02)
    counted = [compare_exact(_runs(3.0), _runs(3.0))] * 100
    assert edge is not None
    assert family_verdicts([edge], [Better.LOWER], threshold=0.02)[0] is Verdict.REGRESSED
    found = family_verdicts([edge, *counted], [Better.LOWER] * 101, threshold=0.02)
    assert set(found[1:]) == {Verdict.UNCHANGED}
    assert found[0] is Verdict.REGRESSED


def test_samples_that_scatter_without_bounds_are_compared_too() -> None:
    """As of a benchmark whose first round compiled: 10 s, then 100 µs."""
    run = RunValue(value=1e-4, q25=1e-4, q75=5.0, sample_count=3)
    seen = compare([run], [run], history_noise=None, threshold=0.02)
    assert seen is not None
    assert -1 < seen.ci_low < seen.change == 0 < seen.ci_high < math.inf


def test_what_two_states_of_the_machine_hide_is_not_called_unchanged() -> None:
    """Head is 3 % slower, and most runs of base happen to fall into the slow state: their medians are alike."""
    fast, slow = 1.0, 1.03
    base = _runs(*[slow] * 7, *[fast] * 5)
    head = _runs(*[1.03 * fast] * 7, *[1.03 * slow] * 5)
    found = compare(base, head, history_noise=Noise(scale=0.015, df=20), threshold=0.02)
    assert found is not None
    assert found.change == pytest.approx(0.0, abs=1e-9)
    assert _verdict(found) is Verdict.INCONCLUSIVE


@pytest.mark.parametrize("noise", [0.001, 0.004, 0.006, 0.007])
def test_at_most_one_in_twenty_slowdowns_of_half_again_what_matters_is_called_unchanged(noise: float) -> None:
    rng = np.random.default_rng(2)
    found = [
        compare(_runs(a), _runs(1.03 * b), history_noise=Noise(scale=noise), threshold=0.02)
        for a, b in np.exp(noise * rng.standard_normal((2000, 2)))
    ]
    verdicts = family_verdicts(found, [Better.LOWER] * len(found), threshold=0.02)
    assert verdicts.count(Verdict.UNCHANGED) <= 0.06 * len(found)

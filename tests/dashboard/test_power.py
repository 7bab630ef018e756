"""How likely more runs decide an open comparison: against simulations that go on measuring, and at the edges."""

import math

import numpy as np
import pytest

from warpwatch.dashboard.model.comparison import Estimate
from warpwatch.dashboard.model.metric import Better
from warpwatch.dashboard.model.thresholds import Limits
from warpwatch.dashboard.model.verdict import Verdict
from warpwatch.dashboard.statistics.comparison import RunValue, compare, compare_exact, family_verdicts
from warpwatch.dashboard.statistics.noise import Noise
from warpwatch.dashboard.statistics.power import conditional_power, required_runs

LEVEL = 0.0001  # 1 % over a hundred series


def _seen(change: float, *, noise: float, runs: int, threshold: float = 0.02) -> Estimate:
    sides = [[RunValue(value=level)] * runs for level in (1.0, 1.0 + change)]
    found = compare(*sides, history_noise=Noise(scale=noise), threshold=threshold)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("change", "noise", "is_settled"),
    [
        (0.0, 0.02, True),
        (0.015, 0.02, True),
        (0.03, 0.015, True),
        (0.05, 0.02, True),
        (0.0, 0.2, False),
        (0.3, 0.2, False),
        (0.6, 0.2, False),
    ],
)
def test_conditional_power_is_how_often_further_runs_decide(change: float, noise: float, is_settled: bool) -> None:
    """Two runs of each were seen; eight more are drawn: around all that the two leave open where ten settle what
    matters, and around what the two showed where ten do not.
    """
    seen = _seen(change, noise=noise, runs=2)
    rng = np.random.default_rng(5)
    times = 4000
    true = math.log1p(change) + (rng.normal(0, noise * math.sqrt(2 / 2), times) if is_settled else 0.0)
    more = true + rng.normal(0, noise * math.sqrt(2 / 8), times)
    estimates = (2 * math.log1p(change) + 8 * more) / 10
    decided = 0
    for estimate in estimates:
        later = _seen(math.expm1(estimate), noise=noise, runs=10)
        verdict = family_verdicts([later], [Better.LOWER], threshold=0.02, family_error=LEVEL)[0]
        decided += verdict is not Verdict.INCONCLUSIVE
    assert conditional_power(seen, runs=10, threshold=0.02, level=LEVEL) == pytest.approx(decided / times, abs=0.03)


def test_required_runs_are_those_at_which_the_same_estimate_is_decided() -> None:
    for change, noise in ((0.0, 0.05), (0.03, 0.02), (0.1, 0.1)):
        wanted = required_runs(_seen(change, noise=noise, runs=2), threshold=0.02, level=LEVEL)
        verdicts = [
            family_verdicts(
                [_seen(change, noise=noise, runs=runs)], [Better.LOWER], threshold=0.02, family_error=LEVEL
            )[0]
            for runs in (wanted - 1, wanted)
        ]
        assert verdicts[0] is Verdict.INCONCLUSIVE
        assert verdicts[1] is not Verdict.INCONCLUSIVE


def test_no_further_run_has_no_chance() -> None:
    assert conditional_power(_seen(0.0, noise=0.02, runs=4), runs=4, threshold=0.02, level=LEVEL) == 0


def test_a_noise_known_from_few_runs_may_be_smaller_than_it_looks() -> None:
    base, head = ([RunValue(value=value) for value in side] for side in ((1.0, 1.08), (1.0, 1.06)))
    few = compare(base, head, history_noise=None, threshold=0.03)
    assert few is not None
    known = _seen(few.change, noise=few.noise, runs=2)  # 12 runs would not make its interval narrow enough
    chances = [conditional_power(each, runs=12, threshold=0.03, level=LEVEL) for each in (few, known)]
    assert chances[0] > chances[1]


def test_of_a_short_call_the_floor_is_what_counts() -> None:
    limits = Limits(threshold=0.02, floor=0.5e-6)
    assert limits.min_relative_change(2e-6, 2.1e-6) == pytest.approx(0.25)
    assert limits.min_relative_change(100e-6, 103e-6) == 0.02


@pytest.mark.parametrize(("head", "verdict"), [(40.0, Verdict.UNCHANGED), (64.0, Verdict.REGRESSED)])
def test_from_zero_the_floor_alone_decides(head: float, verdict: Verdict) -> None:
    limits = Limits(threshold=0.02, floor=50.0)
    seen = compare_exact([RunValue(value=0.0)], [RunValue(value=head)])
    assert family_verdicts([seen], [Better.LOWER], threshold=[limits.min_relative_change(0.0, head)])[0] is verdict


def test_each_of_a_family_has_its_own_threshold() -> None:
    seen = [_seen(0.05, noise=0.001, runs=2, threshold=threshold) for threshold in (0.02, 0.1)]
    assert family_verdicts(seen, [Better.LOWER] * 2, threshold=[0.02, 0.1]) == (Verdict.REGRESSED, Verdict.UNCHANGED)


@pytest.mark.parametrize("threshold", [1e-12, 1e-200, 5e-324])
@pytest.mark.parametrize("change", [0.0, 0.01])
def test_any_threshold_above_zero_has_a_number_of_runs(threshold: float, change: float) -> None:
    seen = _seen(change, noise=0.02, runs=2, threshold=threshold)
    assert seen.runs_needed > 1_000_000
    assert required_runs(seen, threshold=threshold, level=LEVEL) > 0

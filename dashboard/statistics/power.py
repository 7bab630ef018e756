"""Power: the smallest change that a check would detect, and whether more runs would decide."""

import math
from collections.abc import Iterable
from statistics import NormalDist

from ..model.comparison import Estimate
from ..model.quantities import relative_change
from ..model.verdict import CHANGED, NoiseSource, Verdict
from .comparison import FAMILY_ERROR, NOT_UNCHANGED, SMALLEST_NOISE, TAIL_DF, runs_that_resolve
from .distributions import critical_value
from .noise import Noise

# The smallest detectable change, given the noise of a series.
#
# A check calls a series changed if its test rejects at the family's level (`comparison.family_verdicts`) and the
# estimate is at least the threshold. The estimate scatters by its standard error around the true change. So a change is
# detected with a power of 80 % if it lies 0.84 standard errors beyond the larger of the critical value and the
# threshold. As usual, rejection in the other direction is neglected. The level is that of Holm's first step: the series
# is the only one that changed.

POWER = 0.8
_BEYOND = NormalDist().inv_cdf(POWER)


def detectable_change(noise: Noise, *, inside: float, runs: int, family: int, threshold: float) -> float:
    """The relative change for the worse that a check with `runs` of base and of head detects with a power of 80 %.

    `inside`: standard error of one run's median by its samples; `family`: number of series compared.
    """
    error = max(noise.scale, SMALLEST_NOISE, inside) * math.sqrt(2 / runs)
    df = noise.df
    if df is not None and noise.source is NoiseSource.RERUNS:
        df = min(df, TAIL_DF * ((runs + 1) // 2))  # as in compare: single runs have heavy tails
    critical = critical_value(FAMILY_ERROR / family, df) * error
    return relative_change(max(critical, math.log1p(threshold)) + _BEYOND * error)


# Conditional power of an inconclusive comparison, and the number of runs that would decide it.
#
# Stochastic curtailment (Lan, Simon and Halperin, Sequential Analysis 1:207, 1982): the estimate after more runs is
# normal around today's. It decides if it is changed by the family's test and by the threshold, or if it is smaller and
# passes the equivalence test (`comparison.family_verdicts`). Where the interval will be narrow enough, the estimate may
# move as far as the runs so far allow: it scatters by their error too. Where it will not, only a large change can be
# detected, and one that is not visible by now is not expected: the estimate scatters by what the further runs add. A
# noise with few degrees of freedom may be overestimated, so the smallest plausible one is tried too: a comparison is
# futile only if it is so with both.

_TWO_SIDED = 0.05  # of a comparison's interval
_ONE_SIDED = 0.1  # both tails of the equivalence test
_PLAUSIBLE = 0.95  # probability that the noise is no smaller than assumed
_MOST_RUNS = 1_000_000  # pages print more as "never"


def conditional_power(seen: Estimate, *, runs: int, threshold: float, level: float) -> float:
    """Probability that an inconclusive comparison is decided with `runs` of each commit.

    `level`: of the family's test for this series then; `threshold`: the smallest relative change that matters.
    """
    if runs <= _runs(seen) or not math.isfinite(threshold):
        return float(not math.isfinite(threshold))
    return max(_power(seen, noise, runs, threshold, level) for noise in (seen.noise, _smallest_noise(seen)))


def _power(seen: Estimate, noise: float, runs: int, threshold: float, level: float) -> float:
    now, error, df = _runs(seen), noise * math.sqrt(2 / runs), _df(seen, runs)
    matters = math.log1p(threshold)
    critical = max(matters, critical_value(level, df) * error)
    is_narrow = critical_value(_TWO_SIDED, df) * error <= matters
    variance = 2 / now - 2 / runs if is_narrow else 2 * (runs - now) / runs**2
    estimate = NormalDist(math.log1p(seen.change), noise * math.sqrt(variance))
    power = 1 - estimate.cdf(critical) + estimate.cdf(-critical)
    if is_narrow:
        room = min(matters, math.log1p(NOT_UNCHANGED * threshold) - critical_value(_ONE_SIDED, df) * error)
        power += estimate.cdf(room) - estimate.cdf(-room)
    return power


def required_runs(seen: Estimate, *, threshold: float, level: float) -> int:
    """Runs of each commit, those made included, that decide the comparison if its estimate and noise stay the same."""
    size, matters = abs(math.log1p(seen.change)), math.log1p(threshold)
    tests = [(_TWO_SIDED, matters), (_ONE_SIDED, math.log1p(NOT_UNCHANGED * threshold) - size)]
    if size >= matters:
        tests = [(level, size)]
    runs = _runs(seen) + 1
    for _ in range(20):  # more runs bring more degrees of freedom; this converges in a few steps
        df = _df(seen, runs)
        needed = max(runs_that_resolve(distance, critical_value(tail, df) * seen.noise) for tail, distance in tests)
        if needed in (runs, runs - 1):
            break
        runs = min(max(needed, _runs(seen) + 1), _MOST_RUNS)
    return runs


def family_level(compared: Iterable[tuple[Estimate | None, Verdict]], family_error: float) -> float:
    """The level of Holm's next test, given the series already found to have changed."""
    noisy = [
        verdict
        for comparison, verdict in compared
        if comparison is not None and comparison.noise_source is not NoiseSource.NONE
    ]
    changed = sum(verdict in CHANGED for verdict in noisy)
    return family_error / max(len(noisy) - changed, 1)


def _runs(seen: Estimate) -> int:
    return min(seen.base_runs, seen.head_runs)


def _df(seen: Estimate, runs: int) -> int | None:
    """Degrees of freedom of the test with `runs` of each commit: runs add theirs, unless the noise is a history's."""
    if seen.degrees_of_freedom is None or seen.noise_source in {NoiseSource.HISTORY, NoiseSource.MACHINE}:
        return seen.degrees_of_freedom
    more = seen.degrees_of_freedom + 2 * max(runs - _runs(seen), 0)
    return min(more, TAIL_DF * ((runs + 1) // 2))  # of runs alone, 2 * runs - 2, this is no limit


def _smallest_noise(seen: Estimate) -> float:
    """Lower confidence bound of the noise, by the quantile of chi squared."""
    df = seen.degrees_of_freedom
    if df is None:
        return seen.noise
    from scipy.special import chdtri

    quantile = float(chdtri(df, 1 - _PLAUSIBLE)) / df
    return max(seen.noise / math.sqrt(quantile), min(seen.noise, SMALLEST_NOISE))

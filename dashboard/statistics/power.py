"""Power: the smallest change that a check would detect, and whether more runs would decide."""

import math
from collections.abc import Iterable
from functools import lru_cache
from statistics import NormalDist

from ..model.comparison import Estimate
from ..model.quantities import growth
from ..model.verdict import NoiseSource, Verdict
from .comparison import FAMILY_ERROR, NOT_UNCHANGED, SMALLEST_NOISE, TAIL_FREEDOM
from .distributions import student_tail
from .noise import Noise

# The smallest change that a check would tell, from what it takes a series' noise to be.
#
# A check calls a series changed where its test rejects at the family's level (`comparison.judge`) and the estimate is
# at least the threshold. The estimate scatters by its standard error around the true change. So the change that is
# told with a chance of 80 % lies 0.84 standard errors beyond the larger of the two bars; half as large a chance
# beyond it is ignored, as usual in power calculations. Holm's first step is the level: the series is the only one
# that changed.

POWER = 0.8
_BEYOND = NormalDist().inv_cdf(POWER)


def detectable_change(noise: Noise, *, inside: float, runs: int, family: int, threshold: float) -> float:
    """The relative change for the worse that is told in four of five checks, with so many runs of base and of head.

    `inside` is the standard error of one run's median by its samples; `family` the number of series judged together.
    """
    error = max(noise.scale, SMALLEST_NOISE, inside) * math.sqrt(2 / runs)
    freedom = noise.freedom
    if freedom is not None and noise.source is NoiseSource.RERUNS:
        freedom = min(freedom, TAIL_FREEDOM * ((runs + 1) // 2))  # as in compare: a run may lie off all others
    bar = critical_value(FAMILY_ERROR / family, freedom) * error
    return growth(max(bar, math.log1p(threshold)) + _BEYOND * error)


@lru_cache(maxsize=4096)
def critical_value(level: float, freedom: int | None) -> float:
    """Where the two-sided tail is `level`: of Student's t, or of the normal distribution without degrees of freedom."""
    if freedom is None:
        return NormalDist().inv_cdf(1 - level / 2)
    low, high = 0.0, 2.0
    while student_tail(high, freedom) > level:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if student_tail(middle, freedom) > level else (low, middle)
    return high


# Would more runs tell what a comparison could not? The chance of it, and how many runs it takes.
#
# Stochastic curtailment (Lan, Simon and Halperin, Sequential Analysis 1:207, 1982): the estimate after more runs is
# normal around today's. It is told then if it is changed by the family's test and by what matters, or if it matters
# less and that is sure (`comparison.judge`). Where the interval will be narrow enough, the estimate may go wherever
# the runs so far leave room: it scatters by their error too. Where it will not, only a large change can be told, and
# one that does not show by now is not waited for: the estimate scatters by what the further runs add. A noise that
# rests on few degrees of freedom may be smaller than it looks, so the smallest plausible one is tried too: only what
# has no chance either way is given up.

_TWO_SIDED = 0.05  # outside a comparison's interval
_ONE_SIDED = 0.1  # both tails of the test that what is called unchanged is so
_PLAUSIBLE = 0.95  # that the noise is no smaller than taken
_MOST_RUNS = 1_000_000  # what is said of more is "never"


def conditional_power(seen: Estimate, *, runs: int, threshold: float, level: float) -> float:
    """That a comparison that is inconclusive now will not be so with `runs` of each commit.

    `level`: of the family's test for this series then; `threshold`: what matters, relative.
    """
    if runs <= _runs(seen) or not math.isfinite(threshold):
        return float(not math.isfinite(threshold))
    return max(_chance(seen, noise, runs, threshold, level) for noise in (seen.noise, _smallest_noise(seen)))


def _chance(seen: Estimate, noise: float, runs: int, threshold: float, level: float) -> float:
    now, error, freedom = _runs(seen), noise * math.sqrt(2 / runs), _freedom(seen, runs)
    matters = math.log1p(threshold)
    bar = max(matters, critical_value(level, freedom) * error)
    reach = critical_value(_TWO_SIDED, freedom) * error
    is_narrow = reach <= matters
    variance = 2 / now - 2 / runs if is_narrow else 2 * (runs - now) / runs**2
    estimate = NormalDist(math.log1p(seen.change), noise * math.sqrt(variance))
    chance = 1 - estimate.cdf(bar) + estimate.cdf(-bar)
    if is_narrow:
        room = min(matters, math.log1p(NOT_UNCHANGED * threshold) - critical_value(_ONE_SIDED, freedom) * error)
        chance += estimate.cdf(room) - estimate.cdf(-room)
    return chance


def required_runs(seen: Estimate, *, threshold: float, level: float) -> int:
    """Runs of each commit, those made among them, at which today's estimate and noise would be told."""
    moved, matters = abs(math.log1p(seen.change)), math.log1p(threshold)
    tests = [(_TWO_SIDED, matters), (_ONE_SIDED, math.log1p(NOT_UNCHANGED * threshold) - moved)]
    if moved >= matters:
        tests = [(level, moved)]
    runs = _runs(seen) + 1
    for _ in range(20):  # more runs bring more degrees of freedom; it settles in a few steps
        freedom = _freedom(seen, runs)
        reach = max(critical_value(tail, freedom) / distance for tail, distance in tests)
        wanted = math.ceil(2 * (reach * seen.noise) ** 2)
        if wanted in (runs, runs - 1):
            break
        runs = min(max(wanted, _runs(seen) + 1), _MOST_RUNS)
    return runs


def family_level(judged: Iterable[tuple[Estimate | None, Verdict]], family_error: float) -> float:
    """The level of the next test in a family of which so many are told to have changed (Holm)."""
    noisy = [
        verdict
        for comparison, verdict in judged
        if comparison is not None and comparison.noise_source is not NoiseSource.NONE
    ]
    changed = sum(verdict in {Verdict.REGRESSED, Verdict.IMPROVED} for verdict in noisy)
    return family_error / max(len(noisy) - changed, 1)


def _runs(seen: Estimate) -> int:
    return min(seen.base_runs, seen.head_runs)


def _freedom(seen: Estimate, runs: int) -> int | None:
    """Of the test with so many runs of each: runs bring their own, unless a history or the machine tells the noise."""
    if seen.degrees_of_freedom is None or seen.noise_source in {NoiseSource.HISTORY, NoiseSource.MACHINE}:
        return seen.degrees_of_freedom
    more = seen.degrees_of_freedom + 2 * max(runs - _runs(seen), 0)
    return min(more, TAIL_FREEDOM * ((runs + 1) // 2))  # of runs alone, 2 * runs - 2, this is no limit


def _smallest_noise(seen: Estimate) -> float:
    """By the quantile of chi squared, as Wilson and Hilferty approximate it (PNAS 17:684, 1931)."""
    if seen.degrees_of_freedom is None:
        return seen.noise
    part = 2 / (9 * seen.degrees_of_freedom)
    quantile = (1 - part + NormalDist().inv_cdf(_PLAUSIBLE) * math.sqrt(part)) ** 3  # over its degrees of freedom
    return max(seen.noise / math.sqrt(quantile), min(seen.noise, SMALLEST_NOISE))

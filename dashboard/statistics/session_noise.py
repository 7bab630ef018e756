"""The noise of runs taken beside each other, from re-runs: the same code on the same card within one sitting.

Two runs that follow each other on one card, as a gate makes them, differ by less than two runs of different weeks: the
card, its place, the driver and the season stand still. What they differ by is seen directly where anything was run
again. One series was run again a few times at most, so its variance is moderated by those of its machine's others, as
in Smyth, "Linear models and empirical Bayes methods for assessing differential expression in microarray experiments"
(Statistical Applications in Genetics and Molecular Biology 3:1, 2004): variances of series are taken for a scaled
inverse chi-square distribution, fitted by the moments of their logarithms, around a trend over latency (Sartor et al.,
"Intensity-based hierarchical Bayes method improves testing for differentially expressed genes in microarray
experiments", BMC Bioinformatics 7:538, 2006), since a launch of 4 us scatters ten times as much as one of 1 ms.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ..model.verdict import NoiseSource
from .noise import Noise

_ENOUGH_PEERS = 5
_ENOUGH_FOR_A_TREND = 10
_ENOUGH_ALONE = 3  # degrees of freedom of a series whose machine tells nothing
_MOST_PRIOR_FREEDOM = 6.0  # of what the machine tells: however alike its series look, the next may have its own modes
_SMALLEST = 2e-4  # relative scatter, below which the clocks' own resolution rules


@dataclass(frozen=True, slots=True, kw_only=True)
class RerunScatter:
    """What re-runs of one series tell: the pooled variance of logarithms around the mean of each group."""

    level: float
    variance: float
    freedom: int


def rerun_scatter(groups: Sequence[Sequence[float]]) -> RerunScatter | None:
    """Of groups of positive values, each of equal code on one card in one sitting; None if nothing was run again."""
    logs = [np.log(np.asarray(group, dtype=float)) for group in groups if len(group) > 1 and min(group) > 0]
    if not logs:
        return None
    freedom = sum(len(group) - 1 for group in logs)
    squares = sum(float(((group - group.mean()) ** 2).sum()) for group in logs)
    return RerunScatter(
        level=math.exp(float(np.median(np.concatenate(logs)))),
        variance=max(squares / freedom, _SMALLEST**2),
        freedom=freedom,
    )


def rerun_noise(level: float, own: RerunScatter | None, others: Sequence[RerunScatter]) -> Noise | None:
    """The noise of one run of a series of that level: its own re-runs, moderated by those of its machine's others.

    With fewer than five others the series speaks alone, from three degrees of freedom on; None if it cannot.
    """
    return moderated(own, lent(level, others))


@dataclass(frozen=True, slots=True, kw_only=True)
class Lent:
    """What a machine's other series tell of one: a variance, and the degrees of freedom that it counts for."""

    variance: float
    freedom: float


def moderated(own: RerunScatter | None, machine: Lent | None) -> Noise | None:
    """A series' own re-runs with what its machine lends."""
    if machine is None:
        if own is None or own.freedom < _ENOUGH_ALONE:
            return None
        return Noise(scale=math.sqrt(own.variance), source=NoiseSource.RERUNS, freedom=own.freedom)
    variance, freedom = machine.variance, machine.freedom
    if own is not None:
        variance = (freedom * variance + own.freedom * own.variance) / (freedom + own.freedom)
        freedom += own.freedom
    return Noise(scale=math.sqrt(variance), source=NoiseSource.RERUNS, freedom=max(int(freedom), 1))


def lent(level: float, others: Sequence[RerunScatter]) -> Lent | None:
    """What the machine lends a series of that level; None where too few tell.

    Smyth's section 6.2, with a straight line in the logarithm of the level in the place of the mean. The line's own
    uncertainty at the level counts as spread of the variances, so that few peers lend few degrees of freedom.
    """
    if len(others) < _ENOUGH_PEERS:
        return None
    half = np.array([other.freedom / 2 for other in others])
    bias = np.array([_digamma(h) for h in half]) - np.log(half)  # of the logarithm of a variance of few values
    told = np.log([other.variance for other in others]) - bias
    sampling = np.array([_trigamma(h) for h in half])
    away = np.log([other.level / level for other in others])
    design = np.column_stack([np.ones(len(others)), away])
    if len(others) < _ENOUGH_FOR_A_TREND or float(np.ptp(away)) < math.log(4):
        design = design[:, :1]
    spread = 1.0
    for _ in range(5):  # the weights depend on the spread that they are to tell; it settles at once
        weights = 1 / (sampling + spread)
        inverse = np.linalg.inv(design.T @ (design * weights[:, None]))
        line = inverse @ (design.T @ (weights * told))
        squares = (told - design @ line) ** 2 - sampling * (1 - design.shape[1] / len(others))
        spread = max(float((weights * squares).sum() / weights.sum()), 0.0)
    half_freedom = _inverse_trigamma(max(spread + float(inverse[0, 0]), _trigamma(_MOST_PRIOR_FREEDOM / 2)))
    variance = math.exp(float(line[0]) + _digamma(half_freedom) - math.log(half_freedom))
    return Lent(variance=variance, freedom=2 * half_freedom)


@lru_cache(maxsize=4096)
def _digamma(x: float) -> float:
    """By recurrence and the asymptotic series (Abramowitz and Stegun, 6.3.5 and 6.3.18)."""
    before = 0.0
    while x < 8:
        before, x = before - 1 / x, x + 1
    square = 1 / x**2
    return before + math.log(x) - 0.5 / x - square * (1 / 12 - square * (1 / 120 - square / 252))


@lru_cache(maxsize=4096)
def _trigamma(x: float) -> float:
    """By recurrence and the asymptotic series (Abramowitz and Stegun, 6.4.6 and 6.4.12)."""
    before = 0.0
    while x < 8:
        before, x = before + 1 / x**2, x + 1
    square = 1 / x**2
    return before + 1 / x + square / 2 + square / x * (1 / 6 - square * (1 / 30 - square / 42))


def _inverse_trigamma(y: float) -> float:
    """Where the trigamma function, which falls, is y; by bisection of the logarithm."""
    low, high = math.log(1e-3), math.log(1e6)
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if _trigamma(math.exp(middle)) > y else (low, middle)
    return math.exp(low)

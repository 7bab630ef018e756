"""Noise of runs of one session, from re-runs: equal code on the same GPU in the same session.

Two consecutive runs on one GPU, as a gate makes them, differ by less than two runs of different weeks. Where code was
measured again, this noise is observed directly. A series has few re-runs, so its variance is moderated by those of the
machine's other series, as in Smyth, "Linear models and empirical Bayes methods for assessing differential expression in
microarray experiments" (Statistical Applications in Genetics and Molecular Biology 3:1, 2004): the variances of series
follow a scaled inverse chi-square distribution, fitted by the moments of their logarithms, around a trend over latency
(Sartor et al., "Intensity-based hierarchical Bayes method improves testing for differentially expressed genes in
microarray experiments", BMC Bioinformatics 7:538, 2006), since a launch of 4 us scatters ten times as much as one of
1 ms.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..model.verdict import NoiseSource
from .noise import Noise

_ENOUGH_PEERS = 5
_ENOUGH_FOR_A_TREND = 10
_ENOUGH_ALONE = 3  # degrees of freedom of a series without a prior
_MAX_PRIOR_DF = 6.0  # however similar the machine's series are, the next one may have modes of its own
_SMALLEST = 2e-4  # relative scatter; below it the resolution of the clocks dominates


@dataclass(frozen=True, slots=True, kw_only=True)
class RerunScatter:
    """Pooled variance of the logarithms of one series' re-runs, around the mean of each group."""

    level: float
    variance: float
    df: int


def rerun_scatter(groups: Sequence[Sequence[float]]) -> RerunScatter | None:
    """Scatter within groups of positive values, each of equal code in one session; None without any re-run."""
    logs = [np.log(np.asarray(group, dtype=float)) for group in groups if len(group) > 1 and min(group) > 0]
    if not logs:
        return None
    df = sum(len(group) - 1 for group in logs)
    squares = sum(float(((group - group.mean()) ** 2).sum()) for group in logs)
    return RerunScatter(
        level=math.exp(float(np.median(np.concatenate(logs)))),
        variance=max(squares / df, _SMALLEST**2),
        df=df,
    )


def rerun_noise(level: float, own: RerunScatter | None, others: Sequence[RerunScatter]) -> Noise | None:
    """Noise of one run of a series at `level`: its own re-runs, moderated by those of the machine's `others`.

    With fewer than five others the series' own are used, from three degrees of freedom on; else None.
    """
    return moderated(own, variance_prior(level, others))


@dataclass(frozen=True, slots=True, kw_only=True)
class VariancePrior:
    """Empirical-Bayes prior of a series' variance from the machine's other series."""

    variance: float
    df: float


def moderated(own: RerunScatter | None, prior: VariancePrior | None) -> Noise | None:
    """Posterior noise of a series, from its own re-runs and the prior."""
    if prior is None:
        if own is None or own.df < _ENOUGH_ALONE:
            return None
        return Noise(scale=math.sqrt(own.variance), source=NoiseSource.RERUNS, df=own.df)
    variance, df = prior.variance, prior.df
    if own is not None:
        variance = (df * variance + own.df * own.variance) / (df + own.df)
        df += own.df
    return Noise(scale=math.sqrt(variance), source=NoiseSource.RERUNS, df=max(int(df), 1))


def variance_prior(level: float, others: Sequence[RerunScatter]) -> VariancePrior | None:
    """The prior of a series at `level`; None with fewer than five others."""
    return VarianceTrend(others).prior(level)


class VarianceTrend:
    """The variances of a group of series as a function of their level, fitted once for the priors of many series.

    Smyth's section 6.2, with a straight line in the logarithm of the level instead of the mean.
    """

    def __init__(self, others: Sequence[RerunScatter]) -> None:
        from scipy.special import psi, zeta  # loads slowly; psi is digamma, zeta(2, x) trigamma

        self._is_known = len(others) >= _ENOUGH_PEERS
        if not self._is_known:
            return
        half = np.array([other.df / 2 for other in others])
        bias = psi(half) - np.log(half)  # of the logarithm of a sample variance
        logs = np.log([other.variance for other in others]) - bias
        sampling = zeta(2, half)
        levels = np.log([other.level for other in others])
        self._center = float(levels.mean())
        design = np.column_stack([np.ones(len(others)), levels - self._center])
        if len(others) < _ENOUGH_FOR_A_TREND or float(np.ptp(levels)) < math.log(4):
            design = design[:, :1]
        spread = 1.0
        for _ in range(5):  # the weights depend on the spread; this converges at once
            weights = 1 / (sampling + spread)
            self._covariance = np.linalg.inv(design.T @ (design * weights[:, None]))
            self._line = self._covariance @ (design.T @ (weights * logs))
            squares = (logs - design @ self._line) ** 2 - sampling * (1 - design.shape[1] / len(others))
            spread = max(float((weights * squares).sum() / weights.sum()), 0.0)
        self._spread = spread

    def prior(self, level: float) -> VariancePrior | None:
        """The prior of a series at `level`; None with fewer than five others.

        The line's standard error counts as spread of the variances, so that few others give few degrees of freedom.
        """
        from scipy.special import psi, zeta

        if not self._is_known:
            return None
        at = np.array([1.0, math.log(level) - self._center])[: len(self._line)]
        error = float(at @ self._covariance @ at)
        half_df = _inverse_trigamma(max(self._spread + error, float(zeta(2, _MAX_PRIOR_DF / 2))))
        variance = math.exp(float(at @ self._line) + float(psi(half_df)) - math.log(half_df))
        return VariancePrior(variance=variance, df=2 * half_df)


def _inverse_trigamma(y: float) -> float:
    """Where the decreasing trigamma function is `y`, by Newton's method for its reciprocal, which is nearly a line.

    From Smyth's appendix: the reciprocal is convex and the first guess too large, so every step goes down.
    """
    from scipy.special import zeta

    x, step = 0.5 + 1 / y, math.inf
    while step > 1e-12 * x:
        trigamma = float(zeta(2, x))
        step = trigamma * (1 - trigamma / y) / (2 * float(zeta(3, x)))
        x -= step
    return x

"""Runs of a bisect, and their likelihoods: on a stationary machine (Student's t), and on a drifting one.

Drift comes from controls and from re-runs of commits, by a mixed model: a run is the level of its commit, a random
walk of the machine over the runs, and noise; a new session has a level of its own. The step variance of the walk, and
whether the controls of the runs predict the series, are one of a few hypotheses. Each is weighted by its restricted
likelihood (Patterson and Thompson, "Recovery of inter-block information when block sizes are unequal", Biometrika
58:545, 1971) with a free level for each commit, so that the change between the ends is never attributed to the machine.
The prior favours a stationary machine.
"""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from warpwatch.dashboard.statistics.arrival import SESSION_GAP_S

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run at one commit. Values are natural logarithms, so that differences are relative changes."""

    index: int  # of the commit in the range; 0 is the good end
    value: float
    error: float = 0.0  # standard error, from the run's samples and the drift correction
    at_s: float = 0.0  # time of the run, of any clock
    controls: tuple[float, ...] = ()  # logarithms of the controls of the run, always in one order; NaN: no value


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedNoise:
    """Prior of the noise between runs, from re-runs of this series and its machine."""

    sigma: float = 0.005  # relative standard deviation of one run
    df: float = 1.0  # degrees of freedom; 1 if unknown


def estimated_sigma(values: Floats, indices: NDArray[np.intp], noise: ExpectedNoise) -> float:
    """Standard deviation of one run: the prior, updated by re-runs of commits."""
    squares, df = noise.df * noise.sigma**2, noise.df
    for index in np.unique(indices):
        own = values[indices == index]
        if len(own) > 1:
            squares += float(((own - own.mean()) ** 2).sum())
            df += len(own) - 1
    return max(float(np.sqrt(squares / df)), 1e-5)


def columns(runs: Sequence[Run]) -> tuple[Floats, NDArray[np.intp], Floats]:
    """Values, commit indices and errors of the runs."""
    return (
        np.array([run.value for run in runs]),
        np.array([run.index for run in runs], dtype=np.intp),
        np.array([run.error for run in runs]),
    )


_STEP_VARIANCES = (0.0, 0.01, 0.1, 1.0, 10.0)  # of the random walk, in variances of a run

_STATIONARY_PRIOR = 0.7  # prior probability of no drift; the other step variances share the rest

_SESSION_SIGMA = 0.03  # relative standard deviation of the machine's level between sessions

_CLIP_SIGMAS = 4.0  # bound of outliers


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DriftModel:
    """A hypothesis of the machine's drift during the runs, in order of time."""

    probability: float
    values: Floats  # without the change of the controls, if they predict the series
    covariance: Floats  # of the drift about its mean, in variances of a run
    drift: Floats  # best linear unbiased prediction in each run (Robinson, Statistical Science 6:15, 1991)
    variance: Floats  # of the prediction error
    is_drifting: bool


def drift_models(runs: Sequence[Run], noise: ExpectedNoise) -> tuple[DriftModel, ...]:
    """Hypotheses for the runs (in order of time), with probabilities that sum to 1."""
    values, indices, errors = columns(runs)
    levels = np.equal.outer(indices, np.unique(indices)).astype(float)  # runs x commits
    sigma = estimated_sigma(values, indices, noise)
    steps, pauses = _covariances(runs)
    controls, shared = _controls(runs)
    models, likelihoods = [], []
    for control_weight in (0.0, 1.0):
        for step_variance in _STEP_VARIANCES:
            share = _STATIONARY_PRIOR if step_variance == 0 else (1 - _STATIONARY_PRIOR) / (len(_STEP_VARIANCES) - 1)
            expected = share * (shared if control_weight else 1 - shared)
            if expected == 0:
                continue
            rest = values - control_weight * controls
            covariance = step_variance * steps + (_SESSION_SIGMA / sigma) ** 2 * pauses
            clipped = _clipped(rest, indices, sigma)
            likelihood, drift, variance = _predicted(clipped, levels, covariance, (errors / sigma) ** 2, sigma, noise)
            likelihoods.append(likelihood + np.log(expected))
            drift += control_weight * controls
            models.append(
                DriftModel(
                    probability=0.0,
                    values=rest,
                    covariance=covariance,
                    drift=drift,
                    variance=variance,
                    is_drifting=step_variance > 0,
                )
            )
    weights = np.exp(np.array(likelihoods) - max(likelihoods))
    weights /= weights.sum()
    return tuple(replace(model, probability=float(weight)) for model, weight in zip(models, weights, strict=True))


def without_drift(runs: Sequence[Run], models: Sequence[DriftModel]) -> tuple[Run, ...]:
    """The runs without drift, averaged over the hypotheses; errors include the uncertainty of the drift."""
    weights = np.array([model.probability for model in models])
    weights = weights / weights.sum()
    drifts = np.array([model.drift - model.drift.mean() for model in models])
    mean = weights @ drifts
    variance = weights @ (np.array([model.variance for model in models]) + (drifts - mean) ** 2)
    return tuple(
        replace(run, value=run.value - float(off), error=float(np.hypot(run.error, np.sqrt(max(more, 0.0)))))
        for run, off, more in zip(runs, mean, variance, strict=True)
    )


def _covariances(runs: Sequence[Run]) -> tuple[Floats, Floats]:
    """Covariances, about the mean, of a random walk with unit steps and of levels that change between sessions."""
    times = np.array([run.at_s for run in runs])
    order = np.arange(len(runs), dtype=float)
    session = np.concatenate([[0], np.cumsum(np.diff(times) > SESSION_GAP_S)]).astype(float)
    about_mean = np.eye(len(runs)) - 1 / len(runs)
    walk, pauses = np.minimum.outer(order, order), np.minimum.outer(session, session)
    return about_mean @ walk @ about_mean, about_mean @ pauses @ about_mean


def _controls(runs: Sequence[Run]) -> tuple[Floats, float]:
    """The common change of the controls in each run, and the prior probability that it is the machine's.

    The probability is the share of the variance of the common change that the noise of the controls does not explain;
    one half for a single control.
    """
    unknown = np.zeros(len(runs)), 0.0
    if not runs[0].controls or len({len(run.controls) for run in runs}) != 1:
        return unknown
    table = np.array([run.controls for run in runs])
    table = table[:, ~np.isnan(table).all(axis=0)]
    if not table.size:
        return unknown
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a run without controls
        away = table - np.nanmedian(table, axis=0)
        together = np.nan_to_num(np.nanmedian(away, axis=1))
    if table.shape[1] == 1:
        return together, 0.5
    own = float(np.nanmean((away - together[:, None]) ** 2)) / (table.shape[1] - 1)
    whole = float(together.var(ddof=1))
    return together, max(1 - own / whole, 0.02) if whole > 0 else 0.0


def _clipped(values: Floats, indices: NDArray[np.intp], sigma: float) -> Floats:
    clipped = values.copy()
    for index in np.unique(indices):
        own = indices == index
        middle, bound = float(np.median(values[own])), _CLIP_SIGMAS * sigma
        clipped[own] = np.clip(values[own], middle - bound, middle + bound)
    return clipped


def _predicted(
    values: Floats, levels: Floats, covariance: Floats, within_run: Floats, sigma: float, noise: ExpectedNoise
) -> tuple[float, Floats, Floats]:
    """Restricted log likelihood, predicted drift, and variance of its error; `within_run` in variances of a run.

    The noise's variance is integrated out with the expected noise as prior (inverse chi-square).
    """
    df = len(values) - levels.shape[1]
    if df == 0:
        return 0.0, np.zeros(len(values)), np.zeros(len(values))  # no re-runs
    inverse = np.linalg.inv(np.diag(1 + within_run) + covariance)
    normal = levels.T @ inverse @ levels
    projection = inverse - inverse @ levels @ np.linalg.solve(normal, levels.T @ inverse)
    squares = float(values @ projection @ values) + noise.df * noise.sigma**2
    logarithms = np.linalg.slogdet(normal)[1] - np.linalg.slogdet(inverse)[1]
    likelihood = -0.5 * (logarithms + (df + noise.df) * np.log(squares))
    drift = covariance @ (projection @ values)
    error = np.diag(covariance - covariance @ projection @ covariance)
    return float(likelihood), drift, error * min(squares / (df + noise.df), sigma**2)


# Stationary machine: Student's t noise.
#
# Levels and sigma are integrated out on a grid. Given sigma, the sides of a step are independent, so cumulative sums of
# log likelihoods over commits serve all segmentations (Fearnhead, "Exact and efficient Bayesian inference for multiple
# changepoint problems", Statistics and Computing 16:203, 2006).

TAIL_DF = 4.0  # Student's t of one run, as in dashboard/statistics/comparison.py

_SIGMAS = 0.25 * 1.4 ** np.arange(10)  # times the estimated one: 0.25 to 5.2

_MARGIN, _SPACING = 6.0, 0.2  # in sigmas: of the levels around each value, and between two levels

_MOST_LEVELS = 400


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fit:
    """Fits of segmentations, one row each."""

    log_evidence: Floats
    mean: Floats  # segmentation x level
    variance: Floats  # of the level
    sigma: Floats  # of one run


class StationaryFits:
    """Fits on a stationary machine; `commit_of_run` are indices among `count` measured commits."""

    def __init__(
        self, runs: Sequence[Run], commit_of_run: NDArray[np.intp], count: int, sigma: float, noise: ExpectedNoise
    ) -> None:
        values, _, errors = columns(runs)
        levels, width = _support(values, sigma)
        self._sigmas = np.asarray(sigma * _SIGMAS)
        self._expected = -noise.df * (np.log(self._sigmas) + 0.5 * (noise.sigma / self._sigmas) ** 2)
        spread = np.hypot(self._sigmas[:, None], errors)  # sigma x run
        away = (values[:, None] - levels) / spread[..., None]
        density = -np.log(spread)[..., None] - (TAIL_DF + 1) / 2 * np.log1p(away**2 / TAIL_DF)
        by_commit = np.zeros((count, len(self._sigmas), len(levels)))
        np.add.at(by_commit, commit_of_run, density.transpose(1, 0, 2))
        sums = np.concatenate([np.zeros((1, *by_commit.shape[1:])), np.cumsum(by_commit, axis=0)])
        first, last = np.triu_indices(count)  # of each possible segment
        total = sums[last + 1] - sums[first]
        peak = total.max(axis=2)
        likelihood = np.exp(total - peak[..., None]) * (width / width.sum())
        whole = likelihood.sum(axis=2)
        shape = (count, count, len(self._sigmas))
        self._evidence, self._mean, self._square = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        self._evidence[first, last] = np.log(whole) + peak
        self._mean[first, last] = (likelihood @ levels) / whole
        self._square[first, last] = (likelihood @ levels**2) / whole
        self._count = count

    def of(self, gaps: NDArray[np.intp]) -> Fit:
        """Fits of segmentations with steps in these gaps, one row each; gap g is before measured commit g."""
        first = np.column_stack([np.zeros(len(gaps), np.intp), gaps])
        last = np.column_stack([gaps - 1, np.full(len(gaps), self._count - 1)])
        by_sigma = self._expected + self._evidence[first, last].sum(axis=1)
        peak = by_sigma.max(axis=1, keepdims=True)
        weight = np.exp(by_sigma - peak)
        whole = weight.sum(axis=1, keepdims=True)
        weight /= whole
        mean = np.einsum("rls,rs->rl", self._mean[first, last], weight)
        square = np.einsum("rls,rs->rl", self._square[first, last], weight)
        return Fit(
            log_evidence=(np.log(whole) + peak)[:, 0],
            mean=mean,
            variance=np.maximum(square - mean**2, 0.0),
            sigma=weight @ self._sigmas,
        )


def level_range(values: Floats, sigma: float) -> float:
    return float(_support(values, sigma)[1].sum())


def _support(values: Floats, sigma: float) -> tuple[Floats, Floats]:
    """Evenly spaced levels around the values to integrate over, and the width that each represents."""
    ordered = np.sort(values)
    starts, ends = ordered - _MARGIN * sigma, ordered + _MARGIN * sigma
    edge = np.flatnonzero(starts[1:] > ends[:-1])
    parts = list(zip(starts[np.concatenate([[0], edge + 1])], ends[np.concatenate([edge, [-1]])], strict=True))
    spacing = max(_SPACING * sigma, sum(end - start for start, end in parts) / _MOST_LEVELS)
    levels, width = [], []
    for start, end in parts:
        count = math.ceil((end - start) / spacing)
        step = (end - start) / count
        levels.append(start + step * (np.arange(count) + 0.5))
        width.append(np.full(count, step))
    return np.concatenate(levels), np.concatenate(width)


# Drifting machine: noise that is correlated between neighbouring runs.
#
# Generalised least squares with a level for each segment; levels and the noise's variance are integrated out. Noise is
# normal here, since heavy tails with a random walk have no closed form; outliers are re-run before a commit is named.


class DriftFits:
    """Fits under one drift model; `commit_of_run` are indices among the `count` measured commits."""

    def __init__(
        self,
        model: DriftModel,
        commit_of_run: NDArray[np.intp],
        within_run: Floats,
        count: int,
        noise: ExpectedNoise,
        width: float,
    ) -> None:
        """`within_run` are error variances in variances of a run, `width` is the width of the range of levels."""
        covariance = np.diag(1 + within_run) + model.covariance
        inverse = np.linalg.inv(covariance)
        at = np.equal.outer(commit_of_run, np.arange(count)).astype(float)  # runs x measured commits
        self._products = np.zeros((count + 1, count + 1))
        self._products[1:, 1:] = (at.T @ inverse @ at).cumsum(axis=0).cumsum(axis=1)
        self._sums = np.concatenate([[0.0], (at.T @ inverse @ model.values).cumsum()])
        self._squares = float(model.values @ inverse @ model.values)
        self._runs, self._noise, self._width = len(commit_of_run), noise, width
        self._determinant = float(np.linalg.slogdet(covariance)[1])
        self._count = count

    def of(self, gaps: NDArray[np.intp]) -> Fit:
        """Fits of segmentations with steps in these gaps, one row each."""
        rows, steps = gaps.shape
        edges = np.column_stack([np.zeros(rows, np.intp), gaps, np.full(rows, self._count)])
        low, high = edges[:, :-1], edges[:, 1:]
        total = self._products
        normal = (
            total[high[:, :, None], high[:, None, :]]
            - total[low[:, :, None], high[:, None, :]]
            - total[high[:, :, None], low[:, None, :]]
            + total[low[:, :, None], low[:, None, :]]
        )
        right = self._sums[high] - self._sums[low]
        inverse = np.linalg.inv(normal)
        mean = np.einsum("rab,rb->ra", inverse, right)
        levels = steps + 1
        half = (self._runs - levels + self._noise.df) / 2
        rest = np.maximum(self._squares - (mean * right).sum(axis=1), 0.0) + self._noise.df * self._noise.sigma**2
        evidence = (
            -0.5 * (self._determinant + np.linalg.slogdet(normal)[1])
            - levels * math.log(self._width)
            + math.lgamma(half)
            + levels / 2 * math.log(2 * math.pi)
            - half * np.log(rest / 2)
        )
        run_variance = rest / (2 * half)
        variance = np.diagonal(inverse, axis1=1, axis2=2) * run_variance[:, None]
        return Fit(log_evidence=evidence, mean=mean, variance=variance, sigma=np.sqrt(run_variance))

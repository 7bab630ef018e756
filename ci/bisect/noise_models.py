"""Likelihoods of a bisect's runs: Student's t on a stationary machine, correlated noise on a drifting one."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .drift_model import DriftModel
from .measured_runs import ExpectedNoise, Floats, Run, columns

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
    """Width of the range of levels."""
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

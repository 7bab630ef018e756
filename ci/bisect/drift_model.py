"""Drift of the machine during the runs of a bisect, from controls and from re-runs of commits.

A mixed model: a run is the level of its commit, a random walk of the machine over the runs, and noise; a new session
has a level of its own. The step variance of the walk, and whether the controls of the runs predict the series, are one
of a few hypotheses. Each is weighted by its restricted likelihood (Patterson and Thompson, "Recovery of inter-block
information when block sizes are unequal", Biometrika 58:545, 1971) with a free level for each commit, so that the
change between the ends is never attributed to the machine. The prior favours a stationary machine.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from .measured_runs import ExpectedNoise, Floats, Run, columns, estimated_sigma

SESSION_GAP_S = 2 * 3600.0  # pause after which a new session starts
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

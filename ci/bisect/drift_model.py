"""The machine's own way through the runs of a bisect: what its controls did, and what commits measured again show.

A mixed model: each run is its commit's level, a random walk of the machine over the runs, and noise; after a pause the
machine may stand anywhere nearby. How fast it walks, and whether the controls (work of the same runs that no commit
changes) go with the series, is one of a few possible worlds. Each is weighed by its restricted likelihood (Patterson
and Thompson, "Recovery of inter-block information when block sizes are unequal", Biometrika 58:545, 1971) with a free
level for each commit, so that the change that is looked for is never taken for the machine's: it is seen in the ends,
which a bisect measures again and again. That it stands still is expected first.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from .measured_runs import ExpectedNoise, Floats, Run, columns, guessed_scale

PAUSE_S = 2 * 3600.0  # gap that starts another session
_SPEEDS = (0.0, 0.01, 0.1, 1.0, 10.0)  # variance of a step of the random walk, relative to a run's
_STANDS_STILL = 0.7  # prior of no drift; the speeds share the rest
_AFTER_A_PAUSE = 0.03  # relative standard deviation of the machine's level in another session
_WILD = 4.0  # outliers beyond so many noise scales are clipped


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DriftModel:
    """One hypothesis of the machine's drift during the runs, in order of time."""

    chance: float
    values: Floats  # without what the controls did, where the series goes with them
    covariance: Floats  # of the machine's way about its mean, in variances of a run
    drift: Floats  # what was the machine's of each run, best predicted (Robinson, Statistical Science 6:15, 1991)
    variance: Floats  # of the error of that
    walks: bool


def drift_models(runs: Sequence[Run], noise: ExpectedNoise) -> tuple[DriftModel, ...]:
    """Hypotheses for the runs, in order of time, with probabilities that sum to 1."""
    values, places, errors = columns(runs)
    levels = np.equal.outer(places, np.unique(places)).astype(float)  # runs x commits
    scale = guessed_scale(values, places, noise)
    steps, pauses = _covariances(runs)
    machine, agreement = _controls(runs)
    found, likelihoods = [], []
    for follows in (0.0, 1.0):
        for speed in _SPEEDS:
            share = _STANDS_STILL if speed == 0 else (1 - _STANDS_STILL) / (len(_SPEEDS) - 1)
            expected = share * (agreement if follows else 1 - agreement)
            if expected == 0:
                continue
            rest = values - follows * machine
            covariance = speed * steps + (_AFTER_A_PAUSE / scale) ** 2 * pauses
            tame = _tamed(rest, places, scale)
            likelihood, drift, variance = _predicted(tame, levels, covariance, (errors / scale) ** 2, scale, noise)
            likelihoods.append(likelihood + np.log(expected))
            drift += follows * machine
            found.append(
                DriftModel(
                    chance=0.0, values=rest, covariance=covariance, drift=drift, variance=variance, walks=speed > 0
                )
            )
    weights = np.exp(np.array(likelihoods) - max(likelihoods))
    weights /= weights.sum()
    return tuple(replace(world, chance=float(weight)) for world, weight in zip(found, weights, strict=True))


def without_drift(runs: Sequence[Run], its: Sequence[DriftModel]) -> tuple[Run, ...]:
    """The runs without drift, averaged over the hypotheses; the errors include the drift's uncertainty."""
    weights = np.array([world.chance for world in its])
    weights = weights / weights.sum()
    ways = np.array([world.drift - world.drift.mean() for world in its])
    mean = weights @ ways
    unsure = weights @ (np.array([world.variance for world in its]) + (ways - mean) ** 2)
    return tuple(
        replace(run, value=run.value - float(off), error=float(np.hypot(run.error, np.sqrt(max(more, 0.0)))))
        for run, off, more in zip(runs, mean, unsure, strict=True)
    )


def _covariances(runs: Sequence[Run]) -> tuple[Floats, Floats]:
    """Of the walk where each step has variance 1, and of where the machine stands after pauses; both about the mean."""
    times = np.array([run.at_s for run in runs])
    order = np.arange(len(runs), dtype=float)
    sitting = np.concatenate([[0], np.cumsum(np.diff(times) > PAUSE_S)]).astype(float)
    about_mean = np.eye(len(runs)) - 1 / len(runs)
    walk, pauses = np.minimum.outer(order, order), np.minimum.outer(sitting, sitting)
    return about_mean @ walk @ about_mean, about_mean @ pauses @ about_mean


def _controls(runs: Sequence[Run]) -> tuple[Floats, float]:
    """What the controls did together in each run, and how likely that is the machine rather than their own noise.

    That is the share of the variance of their common way that their scatter around it does not explain; a control
    that stands alone cannot tell, and counts for one half until the series itself speaks.
    """
    still = np.zeros(len(runs)), 0.0
    if not runs[0].controls or len({len(run.controls) for run in runs}) != 1:
        return still
    table = np.array([run.controls for run in runs])
    table = table[:, ~np.isnan(table).all(axis=0)]
    if not table.size:
        return still
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of a run without any control
        away = table - np.nanmedian(table, axis=0)
        together = np.nan_to_num(np.nanmedian(away, axis=1))
    if table.shape[1] == 1:
        return together, 0.5
    own = float(np.nanmean((away - together[:, None]) ** 2)) / (table.shape[1] - 1)
    whole = float(together.var(ddof=1))
    return together, max(1 - own / whole, 0.02) if whole > 0 else 0.0


def _tamed(values: Floats, places: NDArray[np.intp], scale: float) -> Floats:
    tame = values.copy()
    for place in np.unique(places):
        its = places == place
        middle = float(np.median(values[its]))
        tame[its] = np.clip(values[its], middle - _WILD * scale, middle + _WILD * scale)
    return tame


def _predicted(
    values: Floats, levels: Floats, covariance: Floats, inside: Floats, scale: float, noise: ExpectedNoise
) -> tuple[float, Floats, Floats]:
    """Restricted log likelihood, the way, and the variance of its error; `inside` in noise variances.

    The noise's variance is integrated out, with what is expected of it as prior (inverse chi-square).
    """
    df = len(values) - levels.shape[1]
    if df == 0:
        return 0.0, np.zeros(len(values)), np.zeros(len(values))  # nothing was measured again
    inverse = np.linalg.inv(np.diag(1 + inside) + covariance)
    normal = levels.T @ inverse @ levels
    held = inverse - inverse @ levels @ np.linalg.solve(normal, levels.T @ inverse)
    squares = float(values @ held @ values) + noise.df * noise.scale**2
    logarithms = np.linalg.slogdet(normal)[1] - np.linalg.slogdet(inverse)[1]
    likelihood = -0.5 * (logarithms + (df + noise.df) * np.log(squares))
    drift = covariance @ (held @ values)
    error = np.diag(covariance - covariance @ held @ covariance)
    return float(likelihood), drift, error * min(squares / (df + noise.df), scale**2)

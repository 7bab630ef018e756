"""Posterior probability that a commit is the first bad one: noisy bisection as Bayesian inference.

Probabilistic bisection updates a distribution of the step's position by noisy answers (Horstein, "Sequential
transmission using noiseless feedback", IEEE Trans. Inf. Theory 9:136, 1963; Waeber, Frazier and Henderson, "Bisection
search with noisy responses", SIAM J. Control Optim. 51:2261, 2013). Here answers are measurements with unknown noise:
levels and noise are integrated out for a stationary and for a drifting machine, weighted by their probabilities
(run_likelihood.py). There may be up to three steps between the ends; the culprit is the largest in the direction of the
ends' change.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .run_likelihood import (
    DriftFits,
    DriftModel,
    ExpectedNoise,
    Floats,
    Run,
    StationaryFits,
    columns,
    drift_models,
    estimated_sigma,
    level_range,
    without_drift,
)

_PRIOR_OF_STEPS = (0.9, 0.08, 0.02)  # prior probabilities of one, two and three steps
_NEGLIGIBLE = 1e-4  # probability of a drift model that is ignored
_MOST_SEGMENTATIONS = 60  # used to choose the next run


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Segmentations:
    """The most probable segmentations: one row each, one column per measured commit."""

    weight: Floats
    culprit: NDArray[np.intp]  # the gap of the largest step; gap g lies before measured commit g
    level: Floats  # at each measured commit
    spread: Floats  # standard deviation of that level


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Posterior:
    """The posterior after some runs. `probability` sums to 1 over the commits 1 to n; 0 is the good end."""

    measured: NDArray[np.intp]  # indices of commits with a run, in order, both ends included
    probability: Floats  # that commit n is the culprit, at index n - 1
    gaps: Floats  # the same between neighbouring measured commits; index 0 is unused
    steps: tuple[float, ...]  # probabilities of one, two, three steps, at most one per gap
    change: float  # of the culprit, log
    spread: float  # its standard deviation
    sign_probability: float  # of the sign of the ends' change
    sigma: float  # of one run
    segmentations: Segmentations
    other_gaps: Floats  # probability of a further step in each gap
    runs_without_drift: tuple[Run, ...]  # in order of time


def posterior_of(prior: Floats, runs: Sequence[Run], noise: ExpectedNoise) -> Posterior:
    """The posterior of runs; `prior` has a weight for each commit from 1 to n.

    Raises ValueError unless both ends have a run.
    """
    runs = sorted(runs, key=lambda run: run.at_s)
    measured, commit_of_run = np.unique(columns(runs)[1], return_inverse=True)
    if len(measured) < 2 or measured[0] != 0 or measured[-1] != len(prior):
        raise ValueError(f"a bisect needs runs of both ends, 0 and {len(prior)}; it has {measured.tolist()}")
    share = prior / prior.sum()
    mass = np.diff(np.concatenate([[0.0], np.cumsum(share)])[measured], prepend=0.0)
    models = drift_models(runs, noise)
    sets = [_of_steps(count, mass) for count in (1, 2, 3) if count < len(measured)]
    _weigh(sets, runs, commit_of_run, models, noise)
    return _summed(measured, mass, share, sets, without_drift(runs, models))


@dataclass(slots=True, kw_only=True, eq=False)
class _Steps:
    """All segmentations with the same number of steps; weights, levels and noise over all drift models."""

    gaps: NDArray[np.intp]  # segmentation x step
    log_prior: Floats
    weight: Floats
    mean: Floats  # segmentation x level
    square: Floats  # of the level
    sigma: float = 0.0  # share of these segmentations in the mean


def _of_steps(count: int, mass: Floats) -> _Steps:
    gaps = np.array(list(itertools.combinations(range(1, len(mass)), count)), dtype=np.intp)
    probability = _PRIOR_OF_STEPS[count - 1] * math.factorial(count) * mass[gaps].prod(axis=1)
    if count == 1:
        probability = probability + _PRIOR_OF_STEPS[1] * mass[gaps[:, 0]] ** 2  # two steps with no run between them
    with np.errstate(divide="ignore"):
        log_prior = np.log(probability)
    levels = np.zeros((len(gaps), count + 1))
    return _Steps(gaps=gaps, log_prior=log_prior, weight=np.zeros(len(gaps)), mean=levels, square=levels.copy())


def _weigh(
    sets: Sequence[_Steps],
    runs: Sequence[Run],
    commit_of_run: NDArray[np.intp],
    models: Sequence[DriftModel],
    noise: ExpectedNoise,
) -> None:
    values, at, errors = columns(runs)
    sigma, count = estimated_sigma(values, at, noise), sets[0].gaps.shape[0] + 1
    stationary = [model for model in models if not model.is_drifting]
    sources: list[tuple[float, StationaryFits | DriftFits]] = [
        (
            sum(model.probability for model in stationary),
            StationaryFits(without_drift(runs, stationary), commit_of_run, count, sigma, noise),
        )
    ]
    width = level_range(values, sigma)
    sources += [
        (model.probability, DriftFits(model, commit_of_run, (errors / sigma) ** 2, count, noise, width))
        for model in models
        if model.is_drifting and model.probability > _NEGLIGIBLE
    ]
    for probability, source in sources:
        fits = [source.of(each.gaps) for each in sets]
        weights = [each.log_prior + fit.log_evidence for each, fit in zip(sets, fits, strict=True)]
        peak = max(float(each.max()) for each in weights)
        whole = sum(float(np.exp(each - peak).sum()) for each in weights)
        for each, fit, log_weight in zip(sets, fits, weights, strict=True):
            weight = probability * np.exp(log_weight - peak) / whole
            each.weight += weight
            each.mean += weight[:, None] * fit.mean
            each.square += weight[:, None] * (fit.variance + fit.mean**2)
            each.sigma += float(weight @ fit.sigma)
    total = sum(float(each.weight.sum()) for each in sets)
    for each in sets:
        with np.errstate(invalid="ignore"):
            each.mean = np.nan_to_num(each.mean / each.weight[:, None])
            each.square = np.nan_to_num(each.square / each.weight[:, None])
        each.weight /= total
        each.sigma /= total


def _summed(
    measured: NDArray[np.intp], mass: Floats, share: Floats, sets: Sequence[_Steps], runs_without_drift: tuple[Run, ...]
) -> Posterior:
    direction, sign_probability = _direction(sets)
    gaps, others = np.zeros(len(measured)), np.zeros(len(measured))
    moments = np.zeros((len(measured), 2))
    rows: list[tuple[Floats, NDArray[np.intp], Floats, Floats]] = []
    for each in sets:
        spread = np.maximum(each.square - each.mean**2, 0.0)
        jumps = np.diff(each.mean, axis=1)
        largest = np.argmax(direction * jumps, axis=1)
        row = np.arange(len(each.weight))
        culprit = each.gaps[row, largest]
        np.add.at(gaps, culprit, each.weight)
        for step in range(each.gaps.shape[1]):
            np.add.at(others, each.gaps[:, step], each.weight * (step != largest))
        size = jumps[row, largest]
        square = size**2 + spread[row, largest] + spread[row, largest + 1]
        np.add.at(moments, culprit, np.column_stack([each.weight * size, each.weight * square]))
        level_at = (np.arange(len(measured)) >= each.gaps[:, :, None]).sum(axis=1)  # segmentation x measured
        rows.append((each.weight, culprit, each.mean[row[:, None], level_at], spread[row[:, None], level_at]))
    best = int(np.argmax(gaps))
    change = moments[best, 0] / gaps[best]
    probability = share.copy()
    for gap, (low, high) in enumerate(itertools.pairwise(measured.tolist()), start=1):
        probability[low:high] *= gaps[gap] / mass[gap]
    return Posterior(
        measured=measured,
        probability=probability,
        gaps=gaps,
        steps=tuple(float(each.weight.sum()) for each in sets),
        change=float(change),
        spread=float(np.sqrt(max(moments[best, 1] / gaps[best] - change**2, 0.0))),
        sign_probability=sign_probability,
        sigma=sum(each.sigma for each in sets),
        segmentations=_likeliest(rows),
        other_gaps=others,
        runs_without_drift=runs_without_drift,
    )


def _direction(sets: Sequence[_Steps]) -> tuple[float, float]:
    """Sign of the change between the ends, 1.0 or -1.0, and its probability."""
    up = 0.0
    for each in sets:
        spread = np.maximum(each.square - each.mean**2, 0.0)
        rise = each.mean[:, -1] - each.mean[:, 0]
        up += float(each.weight @ _normal(rise / np.sqrt(spread[:, -1] + spread[:, 0] + 1e-300)))
    return (1.0, up) if up >= 0.5 else (-1.0, 1 - up)


def _normal(z: Floats) -> Floats:
    """The cumulative normal distribution."""
    return np.vectorize(lambda one: 0.5 * math.erfc(-one / math.sqrt(2)), otypes=[float])(z)


def _likeliest(rows: Sequence[tuple[Floats, NDArray[np.intp], Floats, Floats]]) -> Segmentations:
    weight, culprit, level, variance = (np.concatenate(parts) for parts in zip(*rows, strict=True))
    kept = np.argsort(weight)[::-1][:_MOST_SEGMENTATIONS]
    return Segmentations(
        weight=weight[kept] / weight[kept].sum(),
        culprit=culprit[kept],
        level=level[kept],
        spread=np.sqrt(variance[kept]),
    )

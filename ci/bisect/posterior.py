"""Which commit is the first bad one, as far as the runs tell: noisy bisection as Bayesian inference.

Probabilistic bisection keeps a distribution over where the step is and moves it by each noisy answer (Horstein,
"Sequential transmission using noiseless feedback", IEEE Trans. Inf. Theory 9:136, 1963; Waeber, Frazier and Henderson,
"Bisection search with noisy responses", SIAM J. Control Optim. 51:2261, 2013). Here an answer is no yes or no but a
measurement, and how noisy it is is not known: the levels and the noise are integrated out, in a world where the machine
stands still (noise_models.py) and in some where it walks (noise_models.py), as likely as commits that were measured
again say (drift_model.py). There may be two or three steps between the ends; the culprit is the largest that goes
the way the ends do.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .drift_model import DriftModel, drift_models, without_drift
from .measured_runs import ExpectedNoise, Floats, Run, columns, guessed_scale
from .noise_models import DriftFits, StationaryFits, level_range

_CHANCE_OF_STEPS = (0.9, 0.08, 0.02)  # of one, two, three
_NEGLIGIBLE = 1e-4  # chance of a world that is not looked into
_KEPT = 60  # readings that the choice of the next run looks at


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Segmentations:
    """The most probable segmentations of the runs: a row each, a column a measured commit."""

    weight: Floats
    culprit: NDArray[np.intp]  # the gap of the largest step; gap g lies before measured commit g
    level: Floats  # at each measured commit
    spread: Floats  # standard deviation of that level


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Posterior:
    """The posterior after some runs. `chance` sums to 1 over the commits 1 to n; 0 is the good end."""

    measured: NDArray[np.intp]  # places with a run, in order; both ends are among them
    chance: Floats  # of each place from 1 on to be the culprit, at index place - 1
    gaps: Floats  # the same between neighbouring measured places; index 0 is unused
    steps: tuple[float, ...]  # chances of one, two, three steps, as far as the runs could tell so many
    change: float  # of the culprit, log
    spread: float  # its standard deviation
    sign_chance: float  # that the last level lies on the side of the first where it seems to
    scale: float  # of one run
    readings: Segmentations
    other_gaps: Floats  # chance that a further step lies in each gap
    steady: tuple[Run, ...]  # the runs in order of time, with the machine's way taken off


def posterior(prior: Floats, runs: Sequence[Run], noise: ExpectedNoise) -> Posterior:
    """`prior` holds a weight for each place from 1 to n. Raises ValueError unless both ends have a run."""
    runs = sorted(runs, key=lambda run: run.at_s)
    measured, where = np.unique(columns(runs)[1], return_inverse=True)
    if len(measured) < 2 or measured[0] != 0 or measured[-1] != len(prior):
        raise ValueError(f"a bisect wants runs at both ends, 0 and {len(prior)}; it has {measured.tolist()}")
    share = prior / prior.sum()
    mass = np.diff(np.concatenate([[0.0], np.cumsum(share)])[measured], prepend=0.0)
    its = drift_models(runs, noise)
    sets = [_of_steps(count, mass) for count in (1, 2, 3) if count < len(measured)]
    _weigh(sets, runs, where, its, noise)
    return _summed(measured, mass, share, sets, without_drift(runs, its))


@dataclass(slots=True, kw_only=True, eq=False)
class _Steps:
    """All segmentations with so many steps; weights, levels and noise over all drift hypotheses."""

    gaps: NDArray[np.intp]  # reading x step
    log_prior: Floats
    weight: Floats
    mean: Floats  # reading x level
    square: Floats  # of the level
    scale: float = 0.0  # its part of the mean


def _of_steps(count: int, mass: Floats) -> _Steps:
    gaps = np.array(list(itertools.combinations(range(1, len(mass)), count)), dtype=np.intp)
    chance = _CHANCE_OF_STEPS[count - 1] * math.factorial(count) * mass[gaps].prod(axis=1)
    if count == 1:
        chance = chance + _CHANCE_OF_STEPS[1] * mass[gaps[:, 0]] ** 2  # two steps with no run between them
    with np.errstate(divide="ignore"):
        log_prior = np.log(chance)
    levels = np.zeros((len(gaps), count + 1))
    return _Steps(gaps=gaps, log_prior=log_prior, weight=np.zeros(len(gaps)), mean=levels, square=levels.copy())


def _weigh(
    sets: Sequence[_Steps],
    runs: Sequence[Run],
    where: NDArray[np.intp],
    its: Sequence[DriftModel],
    noise: ExpectedNoise,
) -> None:
    values, at, errors = columns(runs)
    scale, count = guessed_scale(values, at, noise), sets[0].gaps.shape[0] + 1
    still = [world for world in its if not world.walks]
    sources: list[tuple[float, StationaryFits | DriftFits]] = [
        (
            sum(world.chance for world in still),
            StationaryFits(without_drift(runs, still), where, count, scale, noise),
        )
    ]
    width = level_range(values, scale)
    sources += [
        (world.chance, DriftFits(world, where, (errors / scale) ** 2, count, noise, width))
        for world in its
        if world.walks and world.chance > _NEGLIGIBLE
    ]
    for chance, source in sources:
        fits = [source.of(each.gaps) for each in sets]
        weights = [each.log_prior + fit.log_evidence for each, fit in zip(sets, fits, strict=True)]
        peak = max(float(each.max()) for each in weights)
        whole = sum(float(np.exp(each - peak).sum()) for each in weights)
        for each, fit, log_weight in zip(sets, fits, weights, strict=True):
            weight = chance * np.exp(log_weight - peak) / whole
            each.weight += weight
            each.mean += weight[:, None] * fit.mean
            each.square += weight[:, None] * (fit.variance + fit.mean**2)
            each.scale += float(weight @ fit.scale)
    total = sum(float(each.weight.sum()) for each in sets)
    for each in sets:
        with np.errstate(invalid="ignore"):
            each.mean = np.nan_to_num(each.mean / each.weight[:, None])
            each.square = np.nan_to_num(each.square / each.weight[:, None])
        each.weight /= total
        each.scale /= total


def _summed(
    measured: NDArray[np.intp], mass: Floats, share: Floats, sets: Sequence[_Steps], steady: tuple[Run, ...]
) -> Posterior:
    direction, sign_chance = _direction(sets)
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
        level_at = (np.arange(len(measured)) >= each.gaps[:, :, None]).sum(axis=1)  # reading x measured
        rows.append((each.weight, culprit, each.mean[row[:, None], level_at], spread[row[:, None], level_at]))
    best = int(np.argmax(gaps))
    change = moments[best, 0] / gaps[best]
    chance = share.copy()
    for gap, (low, high) in enumerate(itertools.pairwise(measured.tolist()), start=1):
        chance[low:high] *= gaps[gap] / mass[gap]
    return Posterior(
        measured=measured,
        chance=chance,
        gaps=gaps,
        steps=tuple(float(each.weight.sum()) for each in sets),
        change=float(change),
        spread=float(np.sqrt(max(moments[best, 1] / gaps[best] - change**2, 0.0))),
        sign_chance=sign_chance,
        scale=sum(each.scale for each in sets),
        readings=_likeliest(rows),
        other_gaps=others,
        steady=steady,
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
    """The normal distribution's lower tail."""
    return np.vectorize(lambda one: 0.5 * math.erfc(-one / math.sqrt(2)), otypes=[float])(z)


def _likeliest(rows: Sequence[tuple[Floats, NDArray[np.intp], Floats, Floats]]) -> Segmentations:
    weight, culprit, level, variance = (np.concatenate(parts) for parts in zip(*rows, strict=True))
    kept = np.argsort(weight)[::-1][:_KEPT]
    return Segmentations(
        weight=weight[kept] / weight[kept].sum(),
        culprit=culprit[kept],
        level=level[kept],
        spread=np.sqrt(variance[kept]),
    )

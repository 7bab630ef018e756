"""What another GPU, another run or other software does to latencies, from references that two sessions measured.

A mixed model of the log ratios of one pair of sessions (README.md). A latency consists of memory time, compute time
and the fixed time of a launch, by the roofline; each part has an effect of its own, and a workload's log ratio is their
sum, weighted by its shares. On top come a smooth function of latency and shares, since an L2 hit is no DRAM access, and
an effect of each operator x implementation. All are random effects, so that what few references show is shrunk towards
what all of them show (Robinson, "That BLUP is a good thing", Statistical Science 6:15, 1991; the smooth function is the
Gaussian process of Rasmussen and Williams, 2006, section 2, on inducing points). Residuals have t tails of four degrees
of freedom, by iterative weights (Lange, Little and Taylor, JASA 84:881, 1989).
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

Floats = NDArray[np.float64]

FEWEST = 20  # references of two sessions, from which the effects are estimated

_TAILS = 4.0  # degrees of freedom of the residuals
_SMALLEST = 2e-4  # relative scatter, below which the clocks' own resolution rules
# Prior standard deviations of the common effect, of the memory and compute parts (logarithms), and of a launch (s).
_COMMON, _PART, _LAUNCH_S = 0.05, 0.02, 1e-6
# Distances over which the smooth function changes: logarithm of the latency; share of it.
_LATENCY_LENGTH, _SHARE_LENGTH = 0.5, 1 / 6
_INDUCING, _APART = 48, 0.15  # inducing points at most, and the least squared distance between two
# Variances of the smooth function and of the groups, in those of a residual: what best predicts each reference from the
# others on most pairs of sessions of the H200 and of the H100; a factor of four changes little.
_SMOOTH, _GROUPS = 2.0, 0.5
_TYPICAL = 0.002  # relative scatter, that these variances are of at least: a few calm references know little of others
_ROUNDS = 8
_LEAST_RATIO = 0.1  # of a latency that a leaner launch leaves

# BLAS's threads take longer to share a matrix of 150 columns than to multiply it: 52 pairs of sessions take 3.7 CPU
# seconds on two busy cores, and 0.5 on one thread.
_BLAS = ThreadpoolController()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Latencies:
    """Series that both sessions measured, in columns of one length."""

    base_s: Floats  # positive, seconds
    head_s: Floats
    memory_share: Floats  # of the base latency that the roofline's memory traffic takes, 0 where unknown
    compute_share: Floats  # the same of its arithmetic
    group: tuple[str, ...]  # operator and implementation: what shares a deviation

    def __len__(self) -> int:
        return len(self.base_s)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Deviations:
    """How far series lie from what unchanged code shows on the two sessions, on logarithms."""

    expected: Floats  # log ratio of unchanged code
    deviation: Floats  # measured less expected
    variance: Floats  # of `expected`

    def take(self, places: Sequence[int]) -> "Deviations":
        expected, deviation, variance = (one[places] for one in (self.expected, self.deviation, self.variance))
        return Deviations(expected=expected, deviation=deviation, variance=variance)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SessionEffects:
    """The effects of one pair of sessions, as `session_effects` estimates them."""

    references: Latencies
    left_out: Deviations  # of each reference, from all others
    scatter: float  # of an unchanged series' log ratio around the effects, standard deviation
    launch_s: float  # seconds that every call takes longer in head's session
    _design: "_Design"
    _estimate: "_Estimate"

    def of(self, series: Latencies) -> Deviations:
        """The deviations of series that are no references.

        Where no reference is near, by latency, shares or group, the prior's variance counts.
        """
        parts, smooth, groups = self._design.parts(series)
        of_smooth, of_groups = _prior_variances(self._estimate.variance)
        columns = np.hstack([parts, math.sqrt(of_smooth) * smooth, math.sqrt(of_groups) * groups])
        expected = columns @ self._estimate.effects + np.log(_launch_ratio(self.launch_s, series.base_s))
        variance = ((columns @ self._estimate.covariance) * columns).sum(axis=1)
        variance += of_smooth * np.maximum(1 - (smooth**2).sum(axis=1), 0) + of_groups * (1 - groups.sum(axis=1))
        return Deviations(
            expected=expected, deviation=np.log(series.head_s / series.base_s) - expected, variance=variance
        )


@_BLAS.wrap(limits=1, user_api="blas")
def session_effects(references: Latencies) -> SessionEffects | None:
    """The effects by at least `FEWEST` references; None with fewer.

    References are series that no commit changed between the two sessions; some may be outliers.
    """
    if len(references) < FEWEST:
        return None
    moved = np.log(references.head_s / references.base_s)
    launch_s = _launch_s(moved, references.base_s)
    values = moved - np.log(_launch_ratio(launch_s, references.base_s))
    design = _Design(references, launch_s)
    best = _estimate(design, references, values)
    return SessionEffects(
        references=references,
        left_out=Deviations(expected=moved - best.left_out, deviation=best.left_out, variance=best.uncertainty),
        scatter=math.sqrt(best.variance),
        launch_s=launch_s,
        _design=design,
        _estimate=best,
    )


class _Design:
    """The columns of the model: each is a random effect of unit variance."""

    def __init__(self, references: Latencies, launch_s: float) -> None:
        self._launch_s = launch_s
        self._points = _inducing(_features(references))
        self._root = np.linalg.cholesky(_kernel(self._points, self._points) + 1e-6 * np.eye(len(self._points)))
        several = [group for group, count in Counter(references.group).items() if count > 1]  # one alone is scatter
        self._place = {group: place for place, group in enumerate(several)}

    def parts(self, series: Latencies) -> tuple[Floats, Floats, Floats]:
        """Columns of the latency's parts, of the smooth function, and of the groups, for effects of unit variance."""
        ratio = _launch_ratio(self._launch_s, series.base_s)
        common = np.full(len(series), _COMMON)
        shares = (_PART * series.memory_share, _PART * series.compute_share)
        parts = np.column_stack([common, *shares, _LAUNCH_S / (series.base_s * ratio)])
        smooth = np.linalg.solve(self._root, _kernel(self._points, _features(series))).T
        groups = np.zeros((len(series), len(self._place)))
        known = [(row, self._place[group]) for row, group in enumerate(series.group) if group in self._place]
        if known:
            rows, places = zip(*known, strict=True)
            groups[rows, places] = 1.0
        return parts, smooth, groups


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Estimate:
    effects: Floats
    covariance: Floats
    variance: float  # of a residual
    left_out: Floats  # residual of each reference when the others predict it
    uncertainty: Floats  # variance of that prediction


def _estimate(design: _Design, references: Latencies, values: Floats) -> _Estimate:
    """Henderson's mixed model equations, with weights and variance of the residuals found in turn."""
    parts, smooth, groups = design.parts(references)
    variance = max(1.4826 * float(np.median(np.abs(values - np.median(values)))), 2 * _SMALLEST) ** 2 / 2
    weights = np.ones(len(values))
    for _ in range(_ROUNDS):
        of_smooth, of_groups = _prior_variances(variance)
        columns = np.hstack([parts, math.sqrt(of_smooth) * smooth, math.sqrt(of_groups) * groups])
        precision = weights / variance
        covariance = np.asarray(
            np.linalg.inv((columns.T * precision) @ columns + np.eye(columns.shape[1])), dtype=float
        )
        effects = covariance @ (columns.T @ (precision * values))
        predicted = ((columns @ covariance) * columns).sum(axis=1)
        rest = np.maximum(1 - predicted * precision, 1e-3)  # one minus the leverage
        left_out, uncertainty = (values - columns @ effects) / rest, predicted / rest
        squares = left_out**2 / (1 + uncertainty / variance)
        weights = (_TAILS + 1) / (_TAILS + squares / variance)
        used = variance
        variance = max(float((weights * squares).mean()), _SMALLEST**2)
    return _Estimate(effects=effects, covariance=covariance, variance=used, left_out=left_out, uncertainty=uncertainty)


def _prior_variances(variance: float) -> tuple[float, float]:
    """Of the smooth function and of the groups."""
    typical = max(variance, _TYPICAL**2)
    return _SMOOTH * typical, _GROUPS * typical


def _launch_s(moved: Floats, base_s: Floats) -> float:
    """Seconds by which every call became longer: log ratio = common + log(1 + seconds / latency), by t weights.

    Found before the other effects, since a call of 5 us may become a third shorter, which is no small change.
    """
    common, launch_s, weights = float(np.median(moved)), 0.0, np.ones(len(moved))
    for _ in range(30):
        ratio = _launch_ratio(launch_s, base_s)
        rest = moved - common - np.log(ratio)
        scale = 1.4826 * float(np.median(np.abs(rest))) + 1e-4
        weights = 5 / (4 + (rest / scale) ** 2)
        slopes = np.column_stack([np.ones(len(rest)), _LAUNCH_S / (base_s * ratio)])
        step = np.linalg.solve((slopes.T * weights) @ slopes + 1e-6 * np.eye(2), slopes.T @ (weights * rest))
        common += float(step[0])
        launch_s = max(launch_s + float(step[1]) * _LAUNCH_S, -0.8 * float(base_s.min()))
    return launch_s


def _launch_ratio(launch_s: float, base_s: Floats) -> Floats:
    return np.maximum(1 + launch_s / base_s, _LEAST_RATIO)


def _features(series: Latencies) -> Floats:
    shares = (series.memory_share / _SHARE_LENGTH, series.compute_share / _SHARE_LENGTH)
    return np.column_stack([np.log(series.base_s) / _LATENCY_LENGTH, *shares])


def _kernel(some: Floats, others: Floats) -> Floats:
    """Squared exponential."""
    squares = (some**2).sum(axis=1)[:, None] + (others**2).sum(axis=1)[None] - 2 * some @ others.T
    return np.asarray(np.exp(-np.maximum(squares, 0.0) / 2))


def _inducing(features: Floats) -> Floats:
    """Inducing points: each is the one farthest from those chosen before."""
    places = [int(((features - features.mean(axis=0)) ** 2).sum(axis=1).argmin())]
    squares = ((features - features[places[0]]) ** 2).sum(axis=1)
    while len(places) < _INDUCING and squares.max() > _APART:
        places.append(int(squares.argmax()))
        squares = np.minimum(squares, ((features - features[places[-1]]) ** 2).sum(axis=1))
    return np.asarray(features[places])

"""Noise models of a series: independent, autocorrelated, two states, smooth drift; chosen by description length.

Two states: levels, and a hidden Markov chain. Smooth drift: Legendre polynomials, fitted together with the steps.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from .level_path import Floats, LevelGrid, LevelPath, spans
from .noise import median
from .segmentation import NoiseKind, Segmentation, fit_segments

# Autocorrelation of residuals, robust against outliers.

_LAGS = 12


def scores(residuals: Floats) -> Floats:
    """Residuals over their scale (1.4826 x the median absolute deviation), cut at two, centred."""
    off = residuals - median(residuals)
    scale = 1.4826 * median(np.abs(off)) or float(off.std()) or 1.0
    cut = np.minimum(np.maximum(off / scale, -2), 2)
    return np.asarray(cut - cut.mean())


def lag_one(residuals: Floats) -> float:
    """First autocorrelation of the scores; 0 of a constant."""
    z = scores(residuals)
    power = float(z @ z)
    return float(z[1:] @ z[:-1]) / power if power > 0 else 0.0


def long_run_variance(residuals: Floats) -> float:
    """Variance of a mean relative to that of independent values, at least 1.

    Bartlett weights over twelve lags (Newey and West, "A simple, positive semi-definite, heteroskedasticity and
    autocorrelation consistent covariance matrix", Econometrica 55:703, 1987).
    """
    z = scores(residuals)
    power = float(z @ z)
    lags = min(_LAGS, len(z) // 4)
    if power == 0 or lags == 0:
        return 1.0
    correlation = sum((1 - lag / (lags + 1)) * float(z[lag:] @ z[:-lag]) / power for lag in range(1, lags + 1))
    return max(1.0, 1.0 + 2.0 * correlation)


_PENALTY = 1.1  # of a change, in nats per log of the count
_SHORT = 200  # values added to the count, so that short series do not have a small penalty
_CORRELATED = 2.5  # standard errors of the first autocorrelation
_MOST_CORRELATED = 0.9
_HOPELESS = 0.4  # nats a value by which one level with multimodal noise may be worse, to be tried


def best_segmentation(values: Floats, scale: float) -> Segmentation:
    """The segmentation of minimum description length; changes of level and noise parameters count alike.

    That is BIC with a larger penalty of a change, to limit false alarms (Davis, Lee and Rodriguez-Yam, "Structural
    break estimation for nonstationary time series models", JASA 101:223, 2006).
    """
    penalty = _PENALTY * float(np.log(len(values) + _SHORT))
    candidates = [fit_segments(values, scale, penalty)]
    if not candidates[0].first_path.edges:
        return candidates[0]  # other noise would only explain changes away
    if _one_level_cost(candidates[0]) - candidates[0].cost < _HOPELESS * len(values):
        candidates.append(fit_segments(values, scale, penalty, one_level=True, grid=candidates[0].first_path.grid))
    candidates += _autoregressive(candidates, penalty)
    in_states = two_states(candidates[0], scale, penalty)
    if in_states is not None:
        candidates.append(in_states)
    best = min(candidates, key=lambda candidate: candidate.cost)
    for drift, price in trends(best, penalty):
        drifting = fit_segments(best.values - drift, scale, penalty)
        cost = drifting.cost + price
        candidates.append(replace(drifting, kind=NoiseKind.DRIFTING, cost=cost, state=best.state, drift=drift))
    return min(candidates, key=lambda candidate: candidate.cost)


def _one_level_cost(segmentation: Segmentation) -> float:
    grid = segmentation.first_path.grid
    residuals = grid.places - int(median(grid.places))
    return grid.cost(grid.density(residuals), residuals)


def _autoregressive(candidates: list[Segmentation], penalty: float) -> list[Segmentation]:
    """Segmentations of prewhitened values: each minus its AR(1) prediction from the last one."""
    fitted: list[Segmentation] = []
    seen: set[float] = set()
    for segmentation in candidates:
        values, count = segmentation.values, len(segmentation.values)
        correlation = lag_one(segmentation.path.residuals.astype(float))
        correlation += (1 + len(segmentation.path.edges)) / count  # bias from fitting the levels
        if correlation <= _CORRELATED / np.sqrt(count):
            continue
        correlation = min(correlation, _MOST_CORRELATED)
        if correlation in seen:
            continue  # both have the same path
        seen.add(correlation)
        fresh = values - correlation * np.concatenate([values[:1], values[:-1]])
        again = fit_segments(fresh, jitter(fresh), penalty)
        cost = again.cost + 0.5 * float(np.log(count))
        fitted.append(replace(again, kind=NoiseKind.AUTOREGRESSIVE, cost=cost, values=values))
    return fitted


_FLOOR = 1e-4  # relative noise; below it the resolution of the clocks dominates


def jitter(values: Floats) -> float:
    """Noise scale from the median difference of neighbours, robust against changes and slow wandering."""
    differences = np.abs(values[1:] - values[:-1])
    scale = median(differences) / 0.9539  # of normal noise: 0.6745 sqrt 2
    if scale == 0:  # most neighbours are equal: rounded values
        calm = np.sort(differences)[: int(0.9 * len(differences))]
        scale = float(np.sqrt((calm @ calm) / max(len(calm), 1) / 2)) / 0.79
    return max(scale, _FLOOR)


_FEWEST_JUMPS = 4
_FEWEST_RETURNS = 3
_SHARE_OF_RETURNS = 0.4
_ALIKE = 1.0  # noise scales by which a jump and its return may differ
_FIRST_STAY = 8.0  # values
_ROUNDS = 3
_LONGEST = 3000  # values, to limit time
_LARGEST = 1_500_000  # values times levels, to limit memory


@dataclass(frozen=True, slots=True)
class _Chain:
    """Costs in nats of leaving each state, relative to staying, and of staying one value longer."""

    leave: tuple[float, float]
    stay: tuple[float, float]


def two_states(segmentation: Segmentation, scale: float, penalty: float) -> Segmentation | None:
    """Segmentation with levels and two states, if the first path jumps back and forth by about the same height.

    Viterbi's algorithm over level and state (Rabiner, "A tutorial on hidden Markov models", Proceedings of the IEEE
    77:257, 1989), offset, chain and noise density estimated in turn.
    """
    first, values = segmentation.first_path, segmentation.values
    height = _height(first, scale)
    count = len(values)
    if height is None or count > _LONGEST or count * first.grid.levels > _LARGEST:
        return None
    grid, chain = first.grid, _Chain(leave=(float(np.log(_FIRST_STAY)),) * 2, stay=(0.0, 0.0))
    density = grid.density(first.residuals)
    before = np.empty(0, dtype=int)
    for _ in range(_ROUNDS):
        edges, levels, states = _cheapest(grid, -np.log(density), height, chain, penalty)
        residuals = np.clip(grid.places - levels - height * states, -grid.middle, grid.middle)
        if np.array_equal(residuals, before):
            break
        before = residuals
        chain = _chain(states)
        if min(states.sum(), count - states.sum()) > 3:
            height += round(median(residuals[states == 1]) - median(residuals[states == 0]))
        density = grid.density(residuals)
    moves = np.diff(states)
    chain_cost = (
        int((moves == 1).sum()) * chain.leave[0]
        + int((moves == -1).sum()) * chain.leave[1]
        + int((states == 0).sum()) * chain.stay[0]
        + int((states == 1).sum()) * chain.stay[1]
    )
    return Segmentation(
        kind=NoiseKind.TWO_STATES,
        cost=grid.cost(density, residuals) + penalty * len(edges) + chain_cost + 1.5 * float(np.log(count)),
        edges=edges,
        values=values - height * grid.cell * states,
        excursion=np.zeros(count, dtype=bool),
        path=first,
        first_path=first,
        state=np.asarray(height * grid.cell * states, dtype=float),
    )


def _height(path: LevelPath, scale: float) -> int | None:
    """Distance of the states, in cells: the median jump that the next one reverses."""
    jumps = np.diff(path.levels).astype(float)
    if len(jumps) < _FEWEST_JUMPS:
        return None
    jump, back = jumps[:-1], jumps[1:]
    alike = np.abs(np.abs(jump) - np.abs(back)) * path.grid.cell < _ALIKE * scale
    returns = np.abs(jump[(jump * back < 0) & alike])
    if len(returns) < max(_FEWEST_RETURNS, _SHARE_OF_RETURNS * len(jumps)):
        return None
    return round(median(returns))


def _chain(states: NDArray[np.int_]) -> _Chain:
    """Transition costs estimated from the states, with one move and one stay added."""
    moves = np.diff(states)
    leaving = [
        (int((moves == sign).sum()) + 1) / (int((states == state).sum()) + 2) for state, sign in ((0, 1), (1, -1))
    ]
    leave = tuple(float(np.log(1 - p) - np.log(p)) for p in leaving)  # relative to staying, which all values cost
    stay = tuple(float(-np.log(1 - p)) for p in leaving)
    return _Chain(leave=(leave[0], leave[1]), stay=(stay[0], stay[1]))


def _cheapest(
    grid: LevelGrid, losses: Floats, height: int, chain: _Chain, penalty: float
) -> tuple[list[int], NDArray[np.int_], NDArray[np.int_]]:
    """Edges, and level and state of every value; state 1 lies `height` cells above the level."""
    windows = sliding_window_view(losses[::-1], grid.levels)
    at = grid.middle - grid.places
    both = [windows[at], windows[np.clip(at + height, 0, len(windows) - 1)]]
    costs = np.concatenate(both, axis=1)  # (value, levels in state 0 and then in state 1); becomes the cost of paths
    levels = grid.levels
    costs[0, levels:] += chain.leave[0]
    jumps = np.empty(len(costs) - 1)  # cost of a path that changes its level after the value
    kept = np.empty(2 * levels)
    for index, (before, here) in enumerate(itertools.pairwise(costs)):
        jumps[index] = jump = before[before.argmin()] + penalty
        np.add(before[levels:], chain.leave[1], out=kept[:levels])
        np.add(before[:levels], chain.leave[0], out=kept[levels:])
        np.minimum(kept, jump, out=kept)
        np.minimum(kept, before, out=kept)
        here += kept
    return _backwards(costs.reshape(len(costs), 2, levels), jumps, chain)


def _backwards(costs: Floats, jumps: Floats, chain: _Chain) -> tuple[list[int], NDArray[np.int_], NDArray[np.int_]]:
    """The optimal path, traced back from its end from one move to the previous one."""
    state, level = (int(index) for index in np.unravel_index(costs[-1].argmin(), costs[-1].shape))
    levels, states = np.empty(len(costs), dtype=int), np.empty(len(costs), dtype=int)
    edges = []
    end = len(costs)
    while end:
        switched, jumped = costs[: end - 1, 1 - state, level] + chain.leave[1 - state], jumps[: end - 1]
        moves = np.flatnonzero(costs[: end - 1, state, level] > np.minimum(switched, jumped))
        start = int(moves[-1]) + 1 if len(moves) else 0
        levels[start:end], states[start:end] = level, state
        if start and switched[start - 1] > jumped[start - 1]:
            edges.append(start)
            state, level = (int(index) for index in np.unravel_index(costs[start - 1].argmin(), costs[0].shape))
        else:
            state = 1 - state
        end = start
    return edges[::-1], levels, states


_DEGREES = (1, 2, 3, 5, 8)
_VALUES_PER_DEGREE = 25
_STEP = 3.5  # standard errors of a step in addition to a trend, at least
_NO_STEP = 1.5
_TRIED = 2  # trends that get a segmentation of their own
_CUT = 2.5  # noise scales from the level, at which values are clipped


def trends(segmentation: Segmentation, penalty: float) -> Iterator[tuple[Floats, float]]:
    """Drifts that fit a series better than its steps alone, best first, with the cost of their coefficients.

    Least squares of a polynomial and of levels between the edges, with clipped values; steps that the polynomial makes
    redundant are removed. Half a log of the count for each coefficient and for having any (BIC).
    """
    count = len(segmentation.values)
    degrees = [degree for degree in _DEGREES if count >= degree * _VALUES_PER_DEGREE]
    if not degrees:
        return
    basis = _basis(count, degrees[-1])
    plain, *drifting = _fits(_without_outliers(segmentation), basis, [0, *degrees], segmentation.edges, penalty)
    better = []
    for fit in drifting:
        price = 0.5 * (0.5 + fit.degree) * float(np.log(count))
        if fit.cost + price < plain.cost:
            better.append((fit.cost + price, fit, price))
    for _, fit, price in sorted(better, key=lambda candidate: candidate[0])[:_TRIED]:
        yield basis[:, : fit.degree] @ fit.coefficients(), price


@lru_cache(maxsize=16)
def _basis(count: int, degree: int) -> Floats:
    """Legendre polynomials of degree one and up: (count, degree)."""
    axis = np.linspace(-1, 1, count)
    return np.asarray(np.polynomial.legendre.legvander(axis, degree)[:, 1:], dtype=float)


def _without_outliers(segmentation: Segmentation) -> Floats:
    values, kept = segmentation.values, ~segmentation.excursion
    level = np.empty(len(values))
    for start, end in spans(segmentation.edges, len(values)):
        part = values[start:end]
        level[start:end] = median(part[kept[start:end]] if kept[start:end].any() else part)
    off = values - level
    most = _CUT * 1.4826 * median(np.abs(off[kept]))
    off[~kept] = 0.0
    return np.asarray(level + np.minimum(np.maximum(off, -most), most))


@dataclass(frozen=True, slots=True)
class _Fit:
    degree: int
    cost: float  # in nats, of residuals and remaining steps
    factor: Floats  # Cholesky factor of the normal equations
    solved: Floats  # its inverse times the right-hand side

    def coefficients(self) -> Floats:
        leading = self.factor[: self.degree, : self.degree]
        return np.asarray(np.linalg.solve(leading.T, self.solved[: self.degree]), dtype=float)


def _fits(values: Floats, basis: Floats, degrees: Sequence[int], edges: list[int], penalty: float) -> Iterator[_Fit]:
    """Polynomials of several degrees with levels between edges, without the edges that a polynomial makes redundant.

    The levels are projected out by segment means (Frisch and Waugh, Econometrica 1:387, 1933), so the time is linear in
    the count. One Cholesky factor serves all degrees: a lower degree has its leading rows.
    """
    count = len(values)
    starts = [0, *edges]
    lengths = np.array([*edges, count]) - np.array(starts)
    sums, levels = np.add.reduceat(basis, starts, axis=0), np.add.reduceat(values, starts) / lengths
    means = (sums / lengths[:, None]).T
    off = values - levels.repeat(lengths)
    factor = np.linalg.cholesky(basis.T @ basis - means @ sums)
    solved = np.linalg.solve(factor, np.concatenate([(off @ basis)[:, None], means], axis=1))
    right, across = solved[:, 0], solved[:, 2:] - solved[:, 1:-1]
    squares = off @ off - _running_sum(right * right)
    steps = np.abs(levels[1:] - levels[:-1] - _running_sum(right[:, None] * across))
    variances = 1 / lengths[:-1] + 1 / lengths[1:] + _running_sum(across * across)
    for degree in degrees:
        df = max(count - max(degree, 1) - len(starts), 1)
        deviation = max(math.sqrt(max(squares[degree], 0.0) / df), 1e-9)
        redundant = _redundant(steps[degree] / (deviation * np.sqrt(variances[degree])))
        if redundant:
            left = [edge for index, edge in enumerate(edges) if index not in redundant]
            yield from _fits(values, basis[:, : max(degree, 1)], [degree], left, penalty)
        else:
            yield _Fit(degree, count * math.log(deviation) + penalty * len(edges), factor, right)


def _running_sum(rows: Floats) -> Floats:
    """Cumulative sums of the rows, from 0 rows on."""
    sums = np.zeros((len(rows) + 1, *rows.shape[1:]))
    rows.cumsum(axis=0, out=sums[1:])
    return sums


def _redundant(certainty: Floats) -> set[int]:
    """The least significant step if it is not significant enough, and others far from it that are much less so.

    `certainty`: of each step in standard errors.
    """
    if len(certainty) == 0 or certainty.min() >= _STEP:
        return set()
    order = [int(index) for index in np.argsort(certainty)]
    redundant = {order[0]}
    for index in order[1:]:
        if certainty[index] < _NO_STEP and not {index - 1, index + 1} & redundant:
            redundant.add(index)
    return redundant

"""Smooth drift of a series: Legendre polynomials, fitted together with the steps."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from .level_path import Floats, spans
from .noise import median
from .segmentation import Segmentation

_DEGREES = (1, 2, 3, 5, 8)
_VALUES_PER_DEGREE = 25
_STEP = 3.5  # standard errors of a step beside a trend, at least
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

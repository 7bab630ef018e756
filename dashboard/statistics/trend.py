"""A smooth drift below the levels of a series: Legendre polynomials, fitted together with the steps."""

from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from warpwatch.dashboard.statistics.level_path import Floats, spans
from warpwatch.dashboard.statistics.median import median
from warpwatch.dashboard.statistics.reading import Reading

_DEGREES = (1, 2, 3, 5, 8)
_VALUES_PER_DEGREE = 25
_STEP = 3.5  # standard errors; what is less beside the trend is no step
_NO_STEP = 1.5
_TRIED = 2  # trends worth a reading of their own
_CUT = 2.5  # noise scales from its level beyond which a value counts no more


def trends(reading: Reading, penalty: float) -> Iterator[tuple[Floats, float]]:
    """The drifts that explain a series better than its steps alone do, best first, and what their coefficients cost.

    Least squares of a polynomial and of levels between the reading's edges, values cut towards their level; steps that
    the polynomial makes needless are taken back. Half a log of the count for each coefficient and for having any (BIC).
    """
    count = len(reading.values)
    values = _without_outliers(reading)
    found = []
    plain = _fit(values, np.zeros((count, 1)), reading.edges, penalty)[1]
    for degree in _DEGREES:
        if count < degree * _VALUES_PER_DEGREE:
            break
        basis = _basis(count, degree)
        price = 0.5 * (0.5 + degree) * float(np.log(count))
        coefficients, cost = _fit(values, basis, reading.edges, penalty)
        if cost + price < plain:
            found.append((cost + price, basis @ coefficients, price))
    for _, drift, price in sorted(found, key=lambda each: each[0])[:_TRIED]:
        yield drift, price


@lru_cache(maxsize=16)
def _basis(count: int, degree: int) -> Floats:
    """Legendre polynomials of degree one and up over a series of that length, one a column."""
    axis = np.linspace(-1, 1, count)
    return np.asarray(np.polynomial.legendre.legvander(axis, degree)[:, 1:], dtype=float)


def _without_outliers(reading: Reading) -> Floats:
    values, kept = reading.values, ~reading.excursion
    level = np.empty(len(values))
    for start, end in spans(reading.edges, len(values)):
        part = values[start:end]
        level[start:end] = median(part[kept[start:end]] if kept[start:end].any() else part)
    off = values - level
    scale = 1.4826 * median(np.abs(off[kept]))
    return np.asarray(level + np.where(kept, np.clip(off, -_CUT * scale, _CUT * scale), 0.0))


def _fit(values: Floats, basis: Floats, edges: list[int], penalty: float) -> tuple[Floats, float]:
    """Coefficients, and the cost in nats of residuals and remaining steps.

    The levels are swept out by segment means (Frisch and Waugh, Econometrica 1:387, 1933), so that each round is
    linear in the count.
    """
    count, edges = len(values), list(edges)
    while True:
        starts = np.array([0, *edges])
        lengths = np.diff([*starts, count])
        basis_sums, value_sums = np.add.reduceat(basis, starts, axis=0), np.add.reduceat(values, starts)
        inner = np.linalg.pinv(basis.T @ basis - (basis_sums.T / lengths) @ basis_sums)
        coefficients = inner @ (basis.T @ values - (basis_sums.T / lengths) @ value_sums)
        levels = (value_sums - basis_sums @ coefficients) / lengths
        residuals = values - basis @ coefficients - np.repeat(levels, lengths)
        freedom = max(count - basis.shape[1] - len(starts), 1)
        deviation = max(float(np.sqrt(residuals @ residuals / freedom)), 1e-9)
        needless = _needless(basis_sums / lengths[:, None], lengths, levels, inner, deviation)
        if not needless:
            return coefficients, count * float(np.log(deviation)) + penalty * len(edges)
        edges = [edge for place, edge in enumerate(edges) if place not in needless]


def _needless(means: Floats, lengths: Floats, levels: Floats, inner: Floats, deviation: float) -> set[int]:
    """The least certain step if it is not certain enough, and others far from it that are nothing at all."""
    if len(levels) < 2:
        return set()
    across = np.diff(means, axis=0)
    variance = 1 / lengths[:-1] + 1 / lengths[1:] + np.einsum("ij,jk,ik->i", across, inner, across)
    certainty = np.abs(np.diff(levels)) / (deviation * np.sqrt(variance))
    order = [int(place) for place in np.argsort(certainty)]
    if certainty[order[0]] >= _STEP:
        return set()
    gone = {order[0]}
    for place in order[1:]:
        if certainty[place] < _NO_STEP and not {place - 1, place + 1} & gone:
            gone.add(place)
    return gone

"""Which kind of noise a series has: each is tried where something speaks for it, and the cheapest reading holds."""

from dataclasses import replace

import numpy as np

from .level_path import Floats
from .noise import median
from .segmentation import NoiseKind, Reading, read
from .trend import trends
from .two_states import two_states

# How far neighbouring residuals hang together, whatever outliers do.

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
    """Variance of a mean over that of as many independent values, at least 1.

    Bartlett weights over twelve lags (Newey and West, "A simple, positive semi-definite, heteroskedasticity and
    autocorrelation consistent covariance matrix", Econometrica 55:703, 1987).
    """
    z = scores(residuals)
    power = float(z @ z)
    lags = min(_LAGS, len(z) // 4)
    if power == 0 or lags == 0:
        return 1.0
    together = sum((1 - lag / (lags + 1)) * float(z[lag:] @ z[:-lag]) / power for lag in range(1, lags + 1))
    return max(1.0, 1.0 + 2.0 * together)


_PENALTY = 1.1  # of a change, in nats per log of the count
_SHORT = 200  # values added to the count, so that a short series is not judged by a mild penalty
_CORRELATED = 2.5  # standard errors of the first autocorrelation
_MOST_CORRELATED = 0.9
_HOPELESS = 0.4  # nats a value that noise of several modes around one level would have to make up for


def best_reading(values: Floats, scale: float) -> Reading:
    """The explanation of a series that costs least: changes of level and parameters of the noise count alike.

    That is the minimum description length, or BIC with a penalty of a change that holds false alarms down (Davis, Lee
    and Rodriguez-Yam, "Structural break estimation for nonstationary time series models", JASA 101:223, 2006).
    """
    penalty = _PENALTY * float(np.log(len(values) + _SHORT))
    readings = [read(values, scale, penalty)]
    if not readings[0].first_path.edges:
        return readings[0]  # other noise would only explain changes away
    if _one_level_cost(readings[0]) - readings[0].cost < _HOPELESS * len(values):
        readings.append(read(values, scale, penalty, one_level=True, grid=readings[0].first_path.grid))
    readings += _autoregressive(readings, penalty)
    in_states = two_states(readings[0], scale, penalty)
    if in_states is not None:
        readings.append(in_states)
    best = min(readings, key=lambda each: each.cost)
    for drift, price in trends(best, penalty):
        drifting = read(best.values - drift, scale, penalty)
        cost = drifting.cost + price
        readings.append(replace(drifting, kind=NoiseKind.DRIFTING, cost=cost, state=best.state, drift=drift))
    return min(readings, key=lambda each: each.cost)


def _one_level_cost(reading: Reading) -> float:
    grid = reading.first_path.grid
    residuals = grid.places - int(median(grid.places))
    return grid.cost(grid.density(residuals), residuals)


def _autoregressive(readings: list[Reading], penalty: float) -> list[Reading]:
    """Readings of what each value adds to the share of the last one that their residuals keep."""
    found: list[Reading] = []
    seen: set[float] = set()
    for reading in readings:
        values, count = reading.values, len(reading.values)
        kept = lag_one(reading.path.residuals.astype(float))
        kept += (1 + len(reading.path.edges)) / count  # what fitting the levels took from it
        if kept <= _CORRELATED / np.sqrt(count):
            continue
        kept = min(kept, _MOST_CORRELATED)
        if kept in seen:
            continue  # both came to the same path
        seen.add(kept)
        fresh = values - kept * np.concatenate([values[:1], values[:-1]])
        again = read(fresh, jitter(fresh), penalty)
        cost = again.cost + 0.5 * float(np.log(count))
        found.append(replace(again, kind=NoiseKind.AUTOREGRESSIVE, cost=cost, values=values))
    return found


_FLOOR = 1e-4  # relative noise below which the clocks' own resolution rules


def jitter(values: Floats) -> float:
    """Scale of the noise from the median difference of neighbours, blind to changes and to slow wandering."""
    differences = np.abs(values[1:] - values[:-1])
    scale = median(differences) / 0.9539  # of normal noise: 0.6745 sqrt 2
    if scale == 0:  # most neighbours are equal: rounded values
        calm = np.sort(differences)[: int(0.9 * len(differences))]
        scale = float(np.sqrt((calm @ calm) / max(len(calm), 1) / 2)) / 0.79
    return max(scale, _FLOOR)

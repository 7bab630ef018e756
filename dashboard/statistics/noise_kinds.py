"""Which kind of noise a series has: each is tried where something speaks for it, and the cheapest reading holds."""

from dataclasses import replace

import numpy as np

from warpwatch.dashboard.statistics.autocorrelation import lag_one
from warpwatch.dashboard.statistics.level_path import Floats
from warpwatch.dashboard.statistics.median import median
from warpwatch.dashboard.statistics.reading import NoiseKind, Reading, read
from warpwatch.dashboard.statistics.trend import trends
from warpwatch.dashboard.statistics.two_states import two_states

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

"""Choice of the noise model of a series, by description length."""

from dataclasses import replace

import numpy as np

from .level_path import Floats
from .noise import median
from .segmentation import NoiseKind, Segmentation, fit_segments
from .trend import trends
from .two_states import two_states

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

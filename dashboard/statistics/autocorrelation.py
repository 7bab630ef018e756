"""How far neighbouring residuals hang together, whatever outliers do."""

import numpy as np

from warpwatch.dashboard.statistics.level_path import Floats
from warpwatch.dashboard.statistics.median import median

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

"""How much a series scatters around its level, whatever the level does."""

import math

import numpy as np
from numpy.typing import NDArray

_FEW = 16


def noise_scale(values: NDArray[np.float64]) -> float:
    """Scale of one value around its level, from differences of values one, two and three apart.

    Each is the 68.3 % quantile of absolute differences over sqrt 2: the standard deviation for normal noise, blind to
    the third that changes and spikes make. The largest counts, since slow wandering hides from close neighbours; of
    fewer than 16 values only neighbours, as one step would be in more than that third. Wants at least 2 values; 0 for
    a constant series.
    """
    lags = (1, 2, 3) if len(values) >= _FEW else (1,)
    scales = (float(np.quantile(np.abs(values[lag:] - values[:-lag]), 0.683)) for lag in lags)
    return max(scales) / math.sqrt(2)

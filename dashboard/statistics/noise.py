"""How much a series scatters around its level, whatever the level does."""

import math

import numpy as np
from numpy.typing import NDArray


def noise_scale(values: NDArray[np.float64]) -> float:
    """Scale of one value around its level, from differences of values one, two and three apart.

    Each is the 68.3 % quantile of absolute differences over sqrt 2: the standard deviation for normal noise, blind to
    the third that changes and spikes make. The largest counts, since slow wandering hides from close neighbours.
    Wants at least 4 values; 0 for a constant series.
    """
    scales = (float(np.quantile(np.abs(values[lag:] - values[:-lag]), 0.683)) for lag in (1, 2, 3))
    return max(scales) / math.sqrt(2)

"""Noise of a series around its level, robust against changes of the level."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..model.verdict import NoiseSource

_FEW = 16
_ONE_SIGMA = 0.683  # quantile of absolute values


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """Relative noise of one run."""

    scale: float
    source: NoiseSource = NoiseSource.HISTORY
    df: int | None = None  # degrees of freedom; None: as good as known


def noise_scale(values: NDArray[np.float64]) -> float:
    """Scale of one value around its level, from differences of values one, two and three apart.

    Each is the 68.3 % quantile of absolute differences over sqrt 2: the standard deviation for normal noise, robust
    against changes and spikes in a third of the differences. The largest counts, since close neighbours hide slow
    wandering; of fewer than 16 values only neighbours, as one step would affect more than a third. Needs at least 2
    values; 0 for a constant series.
    """
    lags = (1, 2, 3) if len(values) >= _FEW else (1,)
    return max(difference_scale(values[lag:] - values[:-lag]) for lag in lags)


def difference_scale(differences: Sequence[float] | NDArray[np.float64]) -> float:
    """Scale of one value, from differences of two: their 68.3 % quantile over sqrt 2. Needs at least one."""
    return _quantile(np.sort(np.abs(np.asarray(differences, dtype=float))), _ONE_SIGMA) / math.sqrt(2)


def _quantile(ordered: NDArray[np.float64], share: float) -> float:
    """`numpy.quantile` to the bit, ten times as fast on a few hundred sorted numbers."""
    place = share * (len(ordered) - 1)
    low = int(place)
    before, after = float(ordered[low]), float(ordered[min(low + 1, len(ordered) - 1)])
    part = place - low
    return before + (after - before) * part if part < 0.5 else after - (after - before) * (1 - part)


def noise_scales(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """`noise_scale` of each row of a table of at least 16 columns."""
    scales = [_quantiles(np.abs(values[:, lag:] - values[:, :-lag]), _ONE_SIGMA) / math.sqrt(2) for lag in (1, 2, 3)]
    return np.max(scales, axis=0)


def _quantiles(table: NDArray[np.float64], share: float) -> NDArray[np.float64]:
    """`_quantile` of each row; sorts no more than needed."""
    place = share * (table.shape[1] - 1)
    low = int(place)
    ordered = np.partition(table, low, axis=1)
    before, after = ordered[:, low], ordered[:, low + 1 :].min(axis=1)
    part = place - low
    return before + (after - before) * part if part < 0.5 else after - (after - before) * (1 - part)


def median(values: NDArray[np.float64] | NDArray[np.int_]) -> float:
    """Median of one or more finite numbers. `numpy.median` takes seven times as long, as it looks for NaN."""
    count = len(values)
    low, high = (count - 1) // 2, count // 2
    ordered = values.copy()
    if count <= _FEW_VALUES:
        ordered.sort()
    else:
        ordered.partition((low, high))
    return (ordered.item(low) + ordered.item(high)) / 2


_FEW_VALUES = 500  # below, sorting is faster than partitioning

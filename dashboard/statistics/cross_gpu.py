"""A kernel that one physical card measured before and another one after: whether more than the card changed.

The baselines that both cards measured, which no commit of the project changes, show what another card of the model does
to a latency. A kernel that the commits left alone is taken to be one more of them: it lies among their shifts, however
these are distributed, as any of them does. So their quantiles are a predictive interval, and its rank among them is the
chance of as much (conformal prediction: Vovk, Gammerman and Shafer, "Algorithmic Learning in a Random World", 2005;
for many kernels at once, by Benjamini and Hochberg: Bates, Candes, Lei, Romano and Sesia, "Testing for outliers with
conformal p-values", Annals of Statistics 51:149, 2023).
"""

from collections.abc import Sequence
from statistics import median

import numpy as np

from ..model.comparison import CrossGpuChange
from ..model.quantities import growth
from .multiplicity import LIMIT, q_values

FEWEST = 40  # baselines, of which the least and the greatest end a 95 % interval
_LEFT_OUT = 0.025  # of the interval, at each end


def cross_gpu_changes(kernels: Sequence[float], controls: Sequence[float]) -> tuple[CrossGpuChange, ...]:
    """Changes of kernels between two GPUs, from log ratios of kernels and of baselines; none with too few baselines.

    A change is significant by its q-value and its interval. The rank is by distance from the baselines' median, and the
    interval leaves out as many at each end: where baselines are skewed, one of the two may exclude more.
    """
    count = len(controls)
    if count < FEWEST or not kernels:
        return ()
    ordered = sorted(controls)
    place = int(_LEFT_OUT * (count + 1))  # from 1 on; of as many values 2 * place / (count + 1) lie outside
    low, middle, high = ordered[place - 1], median(ordered), ordered[count - place]
    away = np.sort(np.abs(np.array(ordered) - middle))
    farther = count - np.searchsorted(away, np.abs(np.array(kernels) - middle), "left")
    chances = ((1 + farther) / (1 + count)).tolist()
    return tuple(
        CrossGpuChange(
            change=growth(moved),
            ci_low=growth(moved - high),
            ci_high=growth(moved - low),
            baselines_low=growth(low),
            baselines_high=growth(high),
            baselines=count,
            q_value=q,
            is_significant=q <= LIMIT and not moved - high <= 0 <= moved - low,
        )
        for moved, q in zip(kernels, q_values(chances, len(kernels)), strict=True)
    )

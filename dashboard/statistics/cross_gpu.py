"""Change of a kernel that one GPU measured before and another one after, beyond the difference of the GPUs.

The baselines that both GPUs measured, which no commit of the project changes, show the effect of the GPU on a latency.
An unchanged kernel is taken to be exchangeable with them, whatever their distribution. So their quantiles are a
predictive interval, and a kernel's rank among them gives its p-value (conformal prediction: Vovk, Gammerman and Shafer,
"Algorithmic Learning in a Random World", 2005; for many kernels at once, by Benjamini and Hochberg: Bates, Candes, Lei,
Romano and Sesia, "Testing for outliers with conformal p-values", Annals of Statistics 51:149, 2023).
"""

from collections.abc import Sequence
from statistics import median

import numpy as np

from ..model.comparison import CrossGpuChange
from ..model.quantities import relative_change
from .multiplicity import SIGNIFICANT_Q, q_values

FEWEST = 40  # baselines, whose range is a 95 % interval
_LEFT_OUT = 0.025  # at each end of the interval


def cross_gpu_changes(kernels: Sequence[float], controls: Sequence[float]) -> tuple[CrossGpuChange, ...]:
    """Changes of kernels between two GPUs, from log ratios of kernels and of baselines; none with too few baselines.

    A change is significant by its q-value and its interval. The rank is by distance from the baselines' median, and the
    interval leaves out as many at each end: where baselines are skewed, one of the two may exclude more.
    """
    count = len(controls)
    if count < FEWEST or not kernels:
        return ()
    ordered = sorted(controls)
    rank = int(_LEFT_OUT * (count + 1))  # from 1 on; another value lies outside with 2 * rank / (count + 1)
    low, middle, high = ordered[rank - 1], median(ordered), ordered[count - rank]
    away = np.sort(np.abs(np.array(ordered) - middle))
    farther = count - np.searchsorted(away, np.abs(np.array(kernels) - middle), "left")
    p_values = ((1 + farther) / (1 + count)).tolist()
    return tuple(
        CrossGpuChange(
            change=relative_change(shift),
            ci_low=relative_change(shift - high),
            ci_high=relative_change(shift - low),
            baselines_low=relative_change(low),
            baselines_high=relative_change(high),
            baselines=count,
            q_value=q,
            is_significant=q <= SIGNIFICANT_Q and not shift - high <= 0 <= shift - low,
        )
        for shift, q in zip(kernels, q_values(p_values, len(kernels)), strict=True)
    )

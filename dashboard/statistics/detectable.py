"""The smallest change that a check would tell, from what it takes a series' noise to be.

A check calls a series changed where its test rejects at the family's level (`comparison.judge`) and the estimate is at
least the threshold. The estimate scatters by its standard error around the true change. So the change that is told with
a chance of 80 % lies 0.84 standard errors beyond the larger of the two bars; half as large a chance beyond it is
ignored, as usual in power calculations. Holm's first step is the level: the series is the only one that changed.
"""

import math
from functools import lru_cache
from statistics import NormalDist

from warpwatch.dashboard.statistics.comparison import FAMILY_ERROR, SMALLEST_NOISE, TAIL_FREEDOM
from warpwatch.dashboard.statistics.growth import growth
from warpwatch.dashboard.statistics.noise import Noise, NoiseSource
from warpwatch.dashboard.statistics.student import student_tail

POWER = 0.8
_BEYOND = NormalDist().inv_cdf(POWER)


def detectable_change(noise: Noise, *, inside: float, runs: int, family: int, threshold: float) -> float:
    """The relative change for the worse that is told in four of five checks, with so many runs of base and of head.

    `inside` is the standard error of one run's median by its samples; `family` the number of series judged together.
    """
    error = max(noise.scale, SMALLEST_NOISE, inside) * math.sqrt(2 / runs)
    freedom = noise.freedom
    if freedom is not None and noise.source is NoiseSource.RERUNS:
        freedom = min(freedom, TAIL_FREEDOM * ((runs + 1) // 2))  # as in compare: a run may lie off all others
    bar = critical_value(FAMILY_ERROR / family, freedom) * error
    return growth(max(bar, math.log1p(threshold)) + _BEYOND * error)


@lru_cache(maxsize=4096)
def critical_value(level: float, freedom: int | None) -> float:
    """Where the two-sided tail is `level`: of Student's t, or of the normal distribution without degrees of freedom."""
    if freedom is None:
        return NormalDist().inv_cdf(1 - level / 2)
    low, high = 0.0, 2.0
    while student_tail(high, freedom) > level:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if student_tail(middle, freedom) > level else (low, middle)
    return high

"""Student's t with a whole number of degrees of freedom."""

import math
from functools import lru_cache
from statistics import NormalDist


def student_tail(t: float, freedom: int) -> float:
    """Two-sided tail of Student's t with a whole number of degrees of freedom (Abramowitz and Stegun, 26.7.3-4)."""
    angle = math.atan2(t, math.sqrt(freedom))
    cosine, term, total = math.cos(angle), 1.0, 0.0
    if freedom % 2:
        term = cosine
        for k in range(1, (freedom - 1) // 2 + 1):
            total += term
            term *= cosine**2 * 2 * k / (2 * k + 1)
        return max(1 - 2 / math.pi * (angle + math.sin(angle) * total), 0.0)
    for k in range(1, freedom // 2 + 1):
        total += term
        term *= cosine**2 * (2 * k - 1) / (2 * k)
    return max(1 - math.sin(angle) * total, 0.0)


@lru_cache(maxsize=4096)
def student_quantile(freedom: int, tail: float = 0.05) -> float:
    """Where the two-sided tail (5 % or more) is `tail`, by bisection."""
    low, high = NormalDist().inv_cdf(1 - tail / 2), 20.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if student_tail(middle, freedom) > tail else (low, middle)
    return high

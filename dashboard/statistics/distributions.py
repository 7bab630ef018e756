"""Student's t distribution, and the Clopper-Pearson interval of a counted share."""

import math
from dataclasses import dataclass
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


# The interval of a share that was counted: Clopper and Pearson, "The use of confidence or fiducial limits illustrated
# in the case of the binomial" (Biometrika 26:4, 1934). It holds its level for every share, also where none was seen.

_TAIL = 0.025  # on either side of a 95 % interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """So many of so many, with the 95 % interval of the share behind it."""

    count: int
    of: int
    low: float
    high: float

    @property
    def value(self) -> float:
        """The share that was seen."""
        return self.count / self.of


def counted_share(count: int, of: int) -> Share | None:
    """The share of `count` among `of`; None of nothing. Assumes that the cases are independent."""
    if of == 0:
        return None
    from scipy.special import betaincinv  # half a second to load, which most commands do without

    low = 0.0 if count == 0 else float(betaincinv(count, of - count + 1, _TAIL))
    high = 1.0 if count == of else float(betaincinv(count + 1, of - count, 1 - _TAIL))
    return Share(count=count, of=of, low=low, high=high)

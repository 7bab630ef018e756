"""The interval of a share that was counted: Clopper and Pearson, "The use of confidence or fiducial limits illustrated
in the case of the binomial" (Biometrika 26:4, 1934). It holds its level for every share, also where none was seen.
"""

import math
from dataclasses import dataclass

import numpy as np

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
    return Share(count=count, of=of, low=_lower_limit(count, of), high=1 - _lower_limit(of - count, of))


def _lower_limit(count: int, of: int) -> float:
    """The share at which `count` or more of `of` have a probability of 2.5 %, by bisection; its relative error is below
    1e-9 up to 100,000 cases.

    It is a quantile of the beta distribution. SciPy has those, and is 140 MB.
    """
    if count == 0:
        return 0.0
    counts = np.arange(count, of + 1)
    log_choose = np.array([math.lgamma(of + 1) - math.lgamma(k + 1) - math.lgamma(of - k + 1) for k in counts])
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        tail = np.exp(log_choose + counts * math.log(middle) + (of - counts) * math.log1p(-middle)).sum()
        low, high = (middle, high) if tail < _TAIL else (low, middle)
    return high

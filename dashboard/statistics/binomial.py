"""The interval of a share that was counted: Clopper and Pearson, "The use of confidence or fiducial limits illustrated
in the case of the binomial" (Biometrika 26:4, 1934). It holds its level for every share, also where none was seen.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass


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
    low = 0.0 if count == 0 else _where(lambda share: 1 - _at_most(count - 1, of, share) - 0.025)
    high = 1.0 if count == of else _where(lambda share: 0.025 - _at_most(count, of, share))
    return Share(count=count, of=of, low=low, high=high)


def _at_most(count: int, of: int, share: float) -> float:
    """The binomial's lower tail."""
    if share in {0.0, 1.0}:
        return 1.0 if share == 0.0 or count >= of else 0.0
    log_share, log_rest = math.log(share), math.log1p(-share)
    whole = math.lgamma(of + 1)
    return math.fsum(
        math.exp(whole - math.lgamma(k + 1) - math.lgamma(of - k + 1) + k * log_share + (of - k) * log_rest)
        for k in range(count + 1)
    )


def _where(rising: Callable[[float], float]) -> float:
    """Where a function that rises over the shares is zero, by bisection."""
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(middle) < 0 else (low, middle)
    return (low + high) / 2

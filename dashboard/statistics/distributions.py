"""Student's t distribution, and the Clopper-Pearson interval of a counted share.

Functions import scipy.special when they are called: it takes 0.4 s, which commands without statistics need not wait.
"""

from dataclasses import dataclass
from functools import lru_cache

_TAIL = 0.025  # on either side of a 95 % interval


def t_p_value(t: float, df: float) -> float:
    """Two-sided p-value of Student's t."""
    from scipy.special import stdtr

    return 2 * float(stdtr(df, -abs(t)))


@lru_cache(maxsize=4096)
def critical_value(level: float, df: float | None) -> float:
    """Two-sided critical value of Student's t, or of the normal distribution where `df` is None."""
    from scipy.special import ndtri, stdtrit

    return float(-ndtri(level / 2) if df is None else -stdtrit(df, level / 2))


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A counted share with the 95 % interval of the probability behind it."""

    count: int
    of: int
    ci_low: float
    ci_high: float

    @property
    def value(self) -> float:
        """Count / of."""
        return self.count / self.of


def counted_share(count: int, of: int) -> Share | None:
    """The share with its exact interval; None for `of` = 0. Assumes independent cases.

    Clopper and Pearson, "The use of confidence or fiducial limits illustrated in the case of the binomial" (Biometrika
    26:4, 1934): holds its level for every share, also for a count of 0.
    """
    if of == 0:
        return None
    from scipy.special import betaincinv

    low = 0.0 if count == 0 else float(betaincinv(count, of - count + 1, _TAIL))
    high = 1.0 if count == of else float(betaincinv(count + 1, of - count, 1 - _TAIL))
    return Share(count=count, of=of, ci_low=low, ci_high=high)

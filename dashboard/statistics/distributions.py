"""Student's t distribution, the Clopper-Pearson interval of a counted share, q-values, p-values of selected changes.

Functions import scipy.special when they are called: it takes 0.4 s, which commands without statistics need not wait.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

_TAIL = 0.025  # on either side of a 95 % interval
NORMAL_95 = 1.96  # half a 95 % interval, in standard errors
MEDIAN_ERROR = 1.2533  # standard error of a median in those of a mean, for normal noise


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


SIGNIFICANT_Q = 0.05  # the largest q-value of a significant step


def q_values(p_values: Sequence[float], family: int) -> tuple[float, ...]:
    """The q-value of each p-value among `family` series, of which the others count as 1; at most 1.

    Among all changes with a q-value of at most x, the expected share of false ones is at most x (Benjamini and
    Hochberg, "Controlling the false discovery rate", JRSS B 57:289, 1995, as adjusted p-values). That holds for
    independent series and for positive dependence, as between a machine's series (Benjamini and Yekutieli, "The control
    of the false discovery rate in multiple testing under dependency", Annals of Statistics 29:1165, 2001). Raises
    ValueError if there are more p-values than series.
    """
    if len(p_values) > family:
        raise ValueError(f"{len(p_values)} changes in a family of {family} series: one a series at most")
    result = [1.0] * len(p_values)
    least = 1.0
    by_size = sorted(range(len(p_values)), key=p_values.__getitem__)
    for rank, index in reversed(list(enumerate(by_size, start=1))):
        least = min(least, p_values[index] * family / rank)
        result[index] = least
    return tuple(result)


_MOST = 37.0  # normal deviations; beyond, the p-value underflows


def selection_adjusted_p_value(nats: float, count: int) -> float:
    """p-value of a log likelihood ratio of `nats` at the best of all positions among `count` values.

    Of normal deviates b = sqrt(2 nats) maximised over all positions, after Miller and Siegmund, "Maximally selected chi
    square statistics" (Biometrics 38:1011, 1982), as Lausen and Schumacher, "Maximally selected rank statistics"
    (Biometrics 48:73, 1992) use it: phi(b) (4 / b + (b - 1 / b) 2 log(count - 1)). At most 1.
    """
    b = min(math.sqrt(2 * max(nats, 0.0)), _MOST)
    if b <= 1 or count < 3:
        return 1.0
    density = math.exp(-0.5 * b * b) / math.sqrt(2 * math.pi)
    return min(density * (4 / b + (b - 1 / b) * 2 * math.log(count - 1)), 1.0)

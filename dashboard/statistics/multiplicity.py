"""Multiplicity: q-values of a family, and p-values of selected changepoints."""

import math
from collections.abc import Sequence

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

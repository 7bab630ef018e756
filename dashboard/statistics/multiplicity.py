"""Multiplicity: q-values of a family, and p-values where the data chose the place."""

import math
from collections.abc import Sequence

LIMIT = 0.05  # the q up to which a step is told as one; beyond it may be chance


def q_values(chances: Sequence[float], family: int) -> tuple[float, ...]:
    """The q of each chance among `family` series, of which the rest show nothing; at most 1.

    Taking all changes with a q of at most x, the expected share of false ones is at most x (Benjamini and Hochberg,
    "Controlling the false discovery rate", JRSS B 57:289, 1995, as adjusted p-values). That holds for independent
    series and for those that positively depend on each other, as a machine's do (Benjamini and Yekutieli, "The control
    of the false discovery rate in multiple testing under dependency", Annals of Statistics 29:1165, 2001).
    Raises ValueError if there are more chances than series.
    """
    if len(chances) > family:
        raise ValueError(f"{len(chances)} changes in a family of {family} series: one a series at most")
    found = [1.0] * len(chances)
    least = 1.0
    by_size = sorted(range(len(chances)), key=chances.__getitem__)
    for rank, place in reversed(list(enumerate(by_size, start=1))):
        least = min(least, chances[place] * family / rank)
        found[place] = least
    return tuple(found)


# The chance of a change whose place the data chose: the best of many places shows more than one named beforehand.

_MOST = 37.0  # normal deviations; beyond, a chance is no float


def chance_anywhere(nats: float, count: int) -> float:
    """That the best place of `count` values without a change gains as much likelihood, `nats`, from two levels.

    Of normal deviates b = sqrt(2 nats) maximised over all places, after Miller and Siegmund, "Maximally selected chi
    square statistics" (Biometrics 38:1011, 1982), as Lausen and Schumacher, "Maximally selected rank statistics"
    (Biometrics 48:73, 1992) use it: phi(b) (4 / b + (b - 1 / b) 2 log(count - 1)). At most 1.
    """
    b = min(math.sqrt(2 * max(nats, 0.0)), _MOST)
    if b <= 1 or count < 3:
        return 1.0
    density = math.exp(-0.5 * b * b) / math.sqrt(2 * math.pi)
    return min(density * (4 / b + (b - 1 / b) * 2 * math.log(count - 1)), 1.0)

"""The chance of a change whose place the data chose: the best of many places shows more than one named beforehand."""

import math

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

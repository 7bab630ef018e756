"""A change on the scale of logarithms, as people read it."""

import math

_LARGEST = 700.0  # nats; beyond 1e304 a ratio is no float


def growth(log_ratio: float) -> float:
    """The relative change that a difference of logarithms is: 0.04 is 4 % more. 1e304 at most, above -1 at least."""
    return max(math.expm1(min(log_ratio, _LARGEST)), -1 + 2**-53)

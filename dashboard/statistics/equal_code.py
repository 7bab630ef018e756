"""How far two measurements of the same machine code lie apart: the noise that no change of a kernel is in."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

ENOUGH_PAIRS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class EqualCodeSpread:
    """Relative differences within pairs, whichever way they go."""

    pairs: int
    median: float
    most: float  # 95 % of the pairs lie no further apart


def equal_code_spread(pairs: Sequence[tuple[float, float]]) -> EqualCodeSpread | None:
    """The spread of pairs of positive values; None for fewer than ENOUGH_PAIRS."""
    if len(pairs) < ENOUGH_PAIRS:
        return None
    apart = [math.expm1(abs(math.log(second / first))) for first, second in pairs]
    return EqualCodeSpread(pairs=len(pairs), median=float(np.median(apart)), most=float(np.quantile(apart, 0.95)))

"""A linear axis of a small SVG: places in per cent of its length, so that it fits any screen, and round ticks."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from warpwatch.dashboard.quantities import axis_unit

_ROUND = (1.0, 2.0, 2.5, 5.0, 10.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """A place in per cent, and what is written there."""

    at: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearScale:
    """From one value to another."""

    low: float
    high: float

    def at(self, value: float) -> float:
        """In per cent of the length; what lies outside is put on the edge."""
        share = (value - self.low) / (self.high - self.low)
        return round(100 * min(max(share, 0.0), 1.0), 2)

    def ticks(self, unit: str, most: int) -> tuple[tuple[Tick, ...], str]:
        """Up to `most` of them at round values, and the unit that they are in."""
        factor, shown = axis_unit(max(abs(self.low), abs(self.high)), unit)
        low, high = self.low * factor, self.high * factor
        size = 10 ** math.floor(math.log10((high - low) / most))
        step = size * next(each for each in _ROUND if size * each * most >= high - low)
        first, last = math.ceil(low / step), math.floor(high / step)
        decimals = max(0, -math.floor(math.log10(step) + 1e-9) + (step / size == 2.5))
        ticks = [Tick(at=self.at(n * step / factor), text=f"{n * step:.{decimals}f}") for n in range(first, last + 1)]
        return tuple(ticks), "" if shown == "unit" else shown


def scale_around(values: Sequence[float], least: float) -> LinearScale:
    """Holds the values with a little room, and spans at least the share `least` of their size."""
    low, high = min(values), max(values)
    middle, span = (low + high) / 2, max(high - low, least * max(abs(low), abs(high))) or 1.0
    return LinearScale(low=middle - 0.54 * span, high=middle + 0.54 * span)

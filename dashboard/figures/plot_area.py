"""The frame of a still picture: axes with round ticks, and where a value stands in it."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from warpwatch.dashboard.figures.svg import element, words

LEFT, TOP, BOTTOM, RIGHT = 88.0, 54.0, 30.0, 16.0  # room for "100 GFLOP/s", for heading and key, for days
_SMALL = 11


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """One axis: the values at its ends, and whether it grows by factors."""

    low: float
    high: float
    is_log: bool = False

    def share(self, value: float) -> float:
        """How far along the axis a value stands: 0 is its beginning, 1 its end."""
        if self.is_log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def ticks(self) -> list[float]:
        """Powers of ten, or steps of 1, 2 or 5 times a power of ten, about five of them."""
        if self.is_log:
            first, last = math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.high) + 1e-9)
            return [10.0**power for power in range(first, last + 1)]
        rough = (self.high - self.low) / 5
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(size * power for size in (1, 2, 5, 10) if size * power >= rough * 0.999)
        first = math.ceil(self.low / step - 1e-9)
        count = math.floor(self.high / step + 1e-9) - first + 1
        return [(first + number) * step for number in range(count)]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlotArea:
    """A plot in a picture of that size."""

    width: float
    height: float
    across: Scale
    up: Scale

    def x(self, value: float) -> float:
        return round(LEFT + self.across.share(value) * (self.width - LEFT - RIGHT), 1)

    def y(self, value: float) -> float:
        return round(self.height - BOTTOM - self.up.share(value) * (self.height - TOP - BOTTOM), 1)

    def line(self, places: Sequence[tuple[float, float]], **attributes: object) -> str:
        """A line through values."""
        points = " ".join(f"{self.x(x):g},{self.y(y):g}" for x, y in places)
        return element("polyline", points=points, fill="none", **attributes)

    def rows(self, told: Callable[[float], str], *, grid: str, ink: str) -> str:
        """The vertical axis: a faint line and a label at each tick."""
        return "".join(
            element("line", x1=LEFT, x2=self.width - RIGHT, y1=self.y(tick), y2=self.y(tick), stroke=grid)
            + label(told(tick), LEFT - 6, self.y(tick) + 4, ink, anchor="end")
            for tick in self.up.ticks()
        )

    def columns(self, ticks: Sequence[tuple[float, str]], *, ink: str) -> str:
        """The horizontal axis: labels under the plot; the first and the last do not stand out of the picture."""
        last = len(ticks) - 1
        anchors = ["start" if n == 0 else "end" if n == last else "middle" for n in range(len(ticks))]
        return "".join(
            label(told, self.x(place), self.height - BOTTOM + 17, ink, anchor=anchor if last else "middle")
            for (place, told), anchor in zip(ticks, anchors, strict=True)
        )


def label(
    text: str, x: float, y: float, ink: str, *, anchor: str = "start", size: float = _SMALL, **more: object
) -> str:
    """A line of words."""
    return element("text", words(text), x=x, y=y, fill=ink, text_anchor=anchor, font_size=size, **more)

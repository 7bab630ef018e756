"""Samples of two sides, base and head or a point and the one before, over one axis: a dot a sample, quartiles below."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from warpwatch.dashboard.figures.scale import LinearScale, Tick, scale_around

HEIGHT = 62  # of one side's dots and box, in CSS pixels
_BINS = 90
_MOST_DOTS = 200
_DOT = 4.4  # between the middles of two dots above each other
_LEAST = 0.01  # of the values: samples that differ less shall not look far apart


@dataclass(frozen=True, slots=True, kw_only=True)
class Dot:
    """Across in per cent, down in CSS pixels."""

    x: float
    y: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Strip:
    """One side."""

    name: str
    dots: tuple[Dot, ...]
    low: float  # the quartiles and what is between, in per cent
    width: float
    median: float
    level: float  # the median as recorded
    q25: float
    q75: float
    least: float
    most: float
    samples: int
    outside: int  # beyond the axis, drawn on its edge


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """Both sides."""

    strips: tuple[Strip, ...]
    ticks: tuple[Tick, ...]
    unit: str
    height: int = HEIGHT


def samples_beside(sides: Sequence[tuple[str, Sequence[float]]], unit: str) -> Samples | None:
    """Named sides with their samples; None where neither has two.

    The axis holds all but the outermost hundredth either way of both sides.
    """
    known = [(name, np.asarray(samples, dtype=float)) for name, samples in sides if len(samples)]
    if not any(len(samples) > 1 for _, samples in known):
        return None
    ends = [float(end) for _, samples in known for end in np.quantile(samples, (0.01, 0.99))]
    scale = scale_around(ends, _LEAST)
    ticks, shown = scale.ticks(unit, 6)
    return Samples(strips=tuple(_strip(name, its, scale) for name, its in known), ticks=ticks, unit=shown)


def _strip(name: str, samples: np.ndarray[tuple[int], np.dtype[np.float64]], scale: LinearScale) -> Strip:
    least, low, middle, high, most = np.quantile(samples, (0, 0.25, 0.5, 0.75, 1)).tolist()
    step = max(1, -(-len(samples) // _MOST_DOTS))
    height: dict[int, int] = {}
    dots = []
    for place in sorted(scale.at(float(value)) for value in samples[::step]):
        column = round(place / 100 * _BINS)
        above = height.get(column, 0)
        height[column] = above + 1
        dots.append((round(100 * column / _BINS, 2), above))  # upright above each other, whatever the axis spans
    tall = max(height.values())
    room = min(_DOT, (HEIGHT - 20) / tall)  # many of one value are pushed together
    return Strip(
        name=name,
        dots=tuple(Dot(x=x, y=round(HEIGHT - 16 - above * room, 1)) for x, above in dots),
        low=scale.at(low),
        width=round(max(scale.at(high) - scale.at(low), 0.2), 2),
        median=scale.at(middle),
        level=middle,
        q25=low,
        q75=high,
        least=least,
        most=most,
        samples=len(samples),
        outside=int(np.sum((samples < scale.low) | (samples > scale.high))),
    )

"""The samples of a point, and of the one before, as bars of a small inline SVG on one scale."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

WIDTH = 360.0
HEIGHT = 56.0
_BINS = 36
_TAIL = 0.02  # of the samples at the upper end, which may lie far off: they are counted into the last bar


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A bar of the SVG, its origin at the upper left."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """Samples in numbers and as bars."""

    bars: tuple[Bar, ...]
    median_x: float
    count: int
    least: float
    q25: float
    median: float
    q75: float
    most: float


def distributions(*groups: Sequence[float]) -> tuple[Distribution | None, ...]:
    """Of each group of samples, all on one scale; None for a group without any.

    Quartiles by linear interpolation. Bars have the same width in value; the highest of each group fills the height.
    """
    together = np.concatenate([np.asarray(group, dtype=np.float64) for group in groups])
    if not len(together):
        return tuple(None for _ in groups)
    low, high = float(together.min()), float(np.quantile(together, 1 - _TAIL))
    room = (high - low) * 0.02 or abs(low) * 0.01 or 1.0
    edges = np.linspace(low - room, high + room, _BINS + 1)
    return tuple(_distribution(np.asarray(group, dtype=np.float64), edges) if len(group) else None for group in groups)


def _distribution(samples: Floats, edges: Floats) -> Distribution:
    counts, _ = np.histogram(np.clip(samples, edges[0], edges[-1]), bins=edges)
    width = WIDTH / _BINS
    tallest = counts.max()
    least, q25, middle, q75, most = np.quantile(samples, (0, 0.25, 0.5, 0.75, 1)).tolist()
    return Distribution(
        bars=tuple(
            Bar(x=round(place * width, 2), y=round(HEIGHT * (1 - count / tallest), 2), width=round(width - 0.8, 2),
                height=round(HEIGHT * count / tallest, 2))
            for place, count in enumerate(counts.tolist()) if count
        ),
        median_x=round(float((middle - edges[0]) / (edges[-1] - edges[0])) * WIDTH, 2),
        count=len(samples), least=least, q25=q25, median=middle, q75=q75, most=most,
    )  # fmt: skip

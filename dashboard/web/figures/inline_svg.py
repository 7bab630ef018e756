"""Small inline SVGs: sparklines, recent commits, samples of two sides."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from ...model.quantities import axis_unit
from ...model.series import Commit, Point, Status

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


# The newest commits of one series or two as a small SVG, with the compared commits marked.

COMMITS = 60
_LEAST = 0.06  # of the values: noise of a thousandth shall not fill the height
_AFTER = 12  # commits after the newer one


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """One commit's level; both places in per cent, from the left and from the top."""

    x: float
    y: float
    commit: Commit
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One series."""

    name: str
    marks: tuple[Mark, ...]
    pieces: tuple[tuple[Mark, Mark], ...]  # neighbours, to be joined


@dataclass(frozen=True, slots=True, kw_only=True)
class Recent:
    """The figure. `chosen` are the compared commits with what they are called there."""

    lines: tuple[Line, ...]
    chosen: tuple[tuple[str, float], ...]
    ticks: tuple[Tick, ...]  # from the top
    unit: str
    first: Commit
    last: Commit


def recent(
    histories: Sequence[tuple[str, Sequence[Point]]], chosen: Sequence[tuple[str, Commit]], unit: str
) -> Recent | None:
    """Named series around the newest chosen commit, COMMITS of them at most; older chosen ones stand at the left.

    None without any number.
    """
    levels = [(name, _levels(points)) for name, points in histories]
    commits = sorted({commit for _, its in levels for commit in its}, key=lambda commit: commit.position)
    if not commits:
        return None
    newest = max(commit.position for _, commit in chosen)
    until = sum(commit.position <= newest for commit in commits) + _AFTER
    shown = commits[:until][-COMMITS:]
    older = [commit for _, commit in chosen if commit in commits and commit not in shown]
    shown = sorted({*older, *shown}, key=lambda commit: commit.position)
    x = {commit: round(100 * (place + 0.5) / len(shown), 2) for place, commit in enumerate(shown)}
    scale = scale_around([value for _, its in levels for commit, value in its.items() if commit in x], _LEAST)
    ticks, shown_unit = scale.ticks(unit, 4)
    lines = []
    for name, its in levels:
        marks = tuple(
            Mark(x=x[commit], y=round(100 - scale.at(its[commit]), 2), commit=commit, value=its[commit])
            for commit in shown
            if commit in its
        )
        lines.append(Line(name=name, marks=marks, pieces=tuple(itertools.pairwise(marks))))
    return Recent(
        lines=tuple(lines),
        chosen=tuple((name, x[commit]) for name, commit in chosen if commit in x),
        ticks=tuple(Tick(at=round(100 - tick.at, 2), text=tick.text) for tick in ticks),
        unit=shown_unit,
        first=shown[0],
        last=shown[-1],
    )


def _levels(points: Sequence[Point]) -> dict[Commit, float]:
    """The median of each commit that has a number."""
    runs: dict[Commit, list[float]] = {}
    for point in points:
        if point.status is Status.OK and point.value is not None:
            runs.setdefault(point.commit, []).append(point.value)
    return {commit: median(values) for commit, values in runs.items()}


# Samples of two sides, base and head or a point and the one before, over one axis: a dot a sample, quartiles below.

HEIGHT = 62  # of one side's dots and box, in CSS pixels
_BINS = 90
_MOST_DOTS = 200
_DOT = 4.4  # between the middles of two dots above each other
_LEAST_SPREAD = 0.01  # of the values: samples that differ less shall not look far apart


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
    scale = scale_around(ends, _LEAST_SPREAD)
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


# A history of a few values as the path of a small inline SVG.

WIDTH = 96.0
SPARKLINE_HEIGHT = 22.0
_MARGIN = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sparkline:
    """SVG path data, and where the newest value's dot goes; no dot where there is no value."""

    path: str
    dot: tuple[float, float] | None


def sparkline(values: Sequence[float | None]) -> Sparkline:
    """Values at even spacing, oldest left, scaled to their own range but never to less than 10 % of their size.

    Without that floor a quiet series would fill the height with its noise. A missing value is a gap in the line.
    """
    known = [value for value in values if value is not None]
    if not known:
        return Sparkline(path="", dot=None)
    middle = (max(known) + min(known)) / 2
    span = max(max(known) - min(known), 0.10 * abs(middle)) or 1.0
    step = (WIDTH - 2 * _MARGIN) / max(len(values) - 1, 1)
    pieces: list[str] = []
    dot: tuple[float, float] | None = None
    pen_down = False
    for index, value in enumerate(values):
        if value is None:
            pen_down = False
            continue
        x = round(_MARGIN + index * step, 1)
        y = round(SPARKLINE_HEIGHT / 2 - (value - middle) / span * (SPARKLINE_HEIGHT - 2 * _MARGIN), 1)
        pieces.append(f"{'L' if pen_down else 'M'}{x:g} {y:g}")
        pen_down, dot = True, (x, y)
    return Sparkline(path="".join(pieces), dot=dot)

"""Small inline SVG charts in lists: a sparkline, ours and the best baseline over commits, a step with its levels."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ...model.changepoint import SeriesChange
from ...store.queries.series_lines import StepLine

Place = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """Size of a chart, in SVG user units."""

    width: float
    height: float
    margin: float
    least_span: float  # of the vertical axis, relative to the values: noise does not fill the height


SPARKLINE = Box(width=96.0, height=22.0, margin=3.0, least_span=0.1)
SMALL_CHART = Box(width=240.0, height=64.0, margin=4.0, least_span=0.1)
STEP_CHART = Box(width=280.0, height=72.0, margin=6.0, least_span=0.06)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sparkline:
    """SVG path data, and the place of the newest value; None without values."""

    path: str
    dot: Place | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallChart:
    """SVG path data of both lines, the place of our newest value, and across the places of commits."""

    ours: str
    baseline: str
    dot: Place | None
    across: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepChart:
    """Path data and coordinates of a step."""

    line: str
    dots: tuple[Place, ...]
    step_x: float  # between the last commit of the old level and the first of the new
    before_y: float
    after_y: float
    baseline: str  # empty if none, or far from the levels
    commits: int


def sparkline(values: Sequence[float | None]) -> Sparkline:
    """Values at even spacing, oldest left; a missing value is a gap."""
    axes = _axes(SPARKLINE, len(values), values)
    if axes is None:
        return Sparkline(path="", dot=None)
    places = axes.places(values)
    return Sparkline(path=_path(places), dot=_last(places))


def small_chart(ours: Sequence[float | None], baseline: Sequence[float | None]) -> SmallChart:
    """Values at even spacing, oldest left, both lines on one linear scale; a missing value is a gap."""
    axes = _axes(SMALL_CHART, len(ours), (*ours, *baseline))
    if axes is None:
        return SmallChart(ours="", baseline="", dot=None, across=())
    places = axes.places(ours)
    return SmallChart(
        ours=_path(places),
        baseline=_path(axes.places(baseline)),
        dot=_last(places),
        across=tuple(axes.x(index) for index in range(len(ours))),
    )


def step_chart(line: StepLine, change: SeriesChange) -> StepChart:
    """The values of a change over commits, the levels on both sides, and the fastest baseline."""
    known = [*line.values, change.before, change.after]
    low, high = min(known), max(known)
    near = [each for each in line.baseline if each is not None]
    has_baseline = bool(near) and low - (high - low) <= min(near) and max(near) <= high + (high - low)
    axes = _Axes(STEP_CHART, len(line.values), [*known, *near] if has_baseline else known)
    places = [place for place in axes.places(line.values) if place is not None]
    baseline = [place for place in axes.places(line.baseline) if place is not None]
    return StepChart(
        line=_path(places),
        dots=tuple(places),
        step_x=axes.x(max(line.first - 0.5, 0.0)),
        before_y=axes.y(change.before),
        after_y=axes.y(change.after),
        baseline=_path(baseline) if has_baseline else "",
        commits=len(line.values),
    )


class _Axes:
    """Commits at even spacing, and values on a linear scale about their middle."""

    def __init__(self, box: Box, count: int, values: Sequence[float]) -> None:
        low, high = min(values), max(values)
        self._box = box
        self._middle = (high + low) / 2
        self._span = max(high - low, box.least_span * abs(self._middle)) or 1.0
        self._step = (box.width - 2 * box.margin) / max(count - 1, 1)

    def x(self, index: float) -> float:
        return round(self._box.margin + index * self._step, 1)

    def y(self, value: float) -> float:
        up = (value - self._middle) / self._span * (self._box.height - 2 * self._box.margin)
        return round(self._box.height / 2 - up, 1)

    def places(self, values: Sequence[float | None]) -> list[Place | None]:
        return [None if value is None else (self.x(index), self.y(value)) for index, value in enumerate(values)]


def _axes(box: Box, count: int, values: Sequence[float | None]) -> _Axes | None:
    """None without values."""
    known = [value for value in values if value is not None]
    return _Axes(box, count, known) if known else None


def _path(places: Iterable[Place | None]) -> str:
    pieces: list[str] = []
    is_joined = False
    for place in places:
        if place is not None:
            pieces.append(f"{'L' if is_joined else 'M'}{place[0]:g} {place[1]:g}")
        is_joined = place is not None
    return "".join(pieces)


def _last(places: Sequence[Place | None]) -> Place | None:
    return next((place for place in reversed(places) if place is not None), None)

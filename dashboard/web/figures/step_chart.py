"""A step as a small inline SVG: values over commits, the levels on both sides, the fastest baseline."""

from collections.abc import Sequence
from dataclasses import dataclass

from ...model.changepoint import SeriesChange
from ...store.queries.series_lines import StepLine

WIDTH, HEIGHT = 280.0, 72.0
_MARGIN = 6.0
_LEAST_SPAN = 0.06  # of the level: noise does not fill the height


@dataclass(frozen=True, slots=True, kw_only=True)
class StepChart:
    """Path data and coordinates in a box of WIDTH x HEIGHT."""

    line: str
    dots: tuple[tuple[float, float], ...]
    step_x: float  # between the last commit of the old level and the first of the new
    before_y: float
    after_y: float
    baseline: str  # empty if none, or far from the levels
    commits: int


def step_chart(line: StepLine, change: SeriesChange) -> StepChart:
    """The chart of a change."""
    known = [*line.values, change.before, change.after]
    low, high = min(known), max(known)
    near = [each for each in line.baseline if each is not None]
    has_baseline = bool(near) and low - (high - low) <= min(near) and max(near) <= high + (high - low)
    if has_baseline:
        low, high = min(low, *near), max(high, *near)
    middle = (low + high) / 2
    span = max(high - low, _LEAST_SPAN * abs(middle)) or 1.0
    step = (WIDTH - 2 * _MARGIN) / max(len(line.values) - 1, 1)

    def x(index: float) -> float:
        return round(_MARGIN + index * step, 1)

    def y(value: float) -> float:
        return round(HEIGHT / 2 - (value - middle) / span * (HEIGHT - 2 * _MARGIN), 1)

    points = tuple((x(index), y(value)) for index, value in enumerate(line.values))
    return StepChart(
        line=_path(points),
        dots=points,
        step_x=x(max(line.first - 0.5, 0.0)),
        before_y=y(change.before),
        after_y=y(change.after),
        baseline=_path([(x(index), y(each)) for index, each in enumerate(line.baseline) if each is not None])
        if has_baseline
        else "",
        commits=len(line.values),
    )


def _path(points: Sequence[tuple[float, float]]) -> str:
    return "".join(f"{'L' if index else 'M'}{x:g} {y:g}" for index, (x, y) in enumerate(points))

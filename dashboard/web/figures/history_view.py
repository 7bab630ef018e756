"""View of a history: axes and their unit, displayed commits and their positions."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from statistics import median
from typing import Any

from ...model import quantities
from ...model.history import CommitPosition, Extent, History, OtherHistory, ShownHistory, thinning_note
from ...model.series import Commit, Point, Status
from .style import MONOSPACE, date_axis, look

RUN_DIGITS = 12  # of a run's name, which distinguish the runs of one series
_ROOM = 0.015  # before the first and after the last commit, as a share of the range
_WORDY = 200  # commits
_NAMES = 8  # of commits under a figure


class Spacing(StrEnum):
    """Unit of the horizontal axis."""

    EVEN = "even"  # measured commits at equal distances
    COMMIT = "commit"  # all commits of the repository; gaps are unmeasured ones
    DATE = "date"


class Scale(StrEnum):
    """Scale of the vertical axis."""

    LINEAR = "linear"
    LOG = "log"


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryView:
    """Axes, and the first and last displayed commit (None: all)."""

    spacing: Spacing = Spacing.EVEN
    scale: Scale = Scale.LINEAR
    unit: str = ""  # of the vertical axis: "percent", the name of a baseline, else as recorded
    first: str | None = None  # prefixes of hashes
    last: str | None = None


PERCENT = "percent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Transform:
    """From recorded to displayed values: scaled and shifted, or divided by a baseline's value at the same commit."""

    factor: float = 1.0
    offset: float = 0.0
    divisor: Mapping[str, float] | None = None  # by hash; no value at a commit without one
    is_inverse: bool = False  # the baseline's value over the series', as for a speedup

    def __call__(self, value: float, commit: Commit) -> float | None:
        if self.divisor is None:
            return value * self.factor + self.offset
        baseline = self.divisor.get(commit.hash)
        if baseline is None or value <= 0:
            return None
        return baseline / value if self.is_inverse else value / baseline


@dataclass(frozen=True)
class Frame:
    """Horizontal positions of commits, and the transform from recorded to displayed values."""

    commits: tuple[Commit, ...]  # drawn ones, oldest first
    places: Mapping[str, CommitPosition]  # by hash
    spacing: Spacing
    transform: Transform

    def x(self, commit: Commit) -> str | int:
        if self.spacing is Spacing.DATE:
            return commit.date.isoformat()
        place = self.places[commit.hash]
        return place.measured if self.spacing is Spacing.EVEN else place.among_all

    def y(self, value: float | None, commit: Commit) -> float | None:
        """Displayed value, rounded to seven digits to keep the JSON short."""
        shown = None if value is None else self.transform(value, commit)
        return None if shown is None else float(f"{shown:.7g}")

    @property
    def is_long(self) -> bool:
        """Whether hover texts are shortened."""
        return len(self.commits) > _WORDY


def by_commit(points: Iterable[Point]) -> list[tuple[Commit, float]]:
    """Median of each commit with a valid value."""
    runs: dict[str, tuple[Commit, list[float]]] = {}
    for point in points:
        if point.status is Status.OK and point.value is not None:
            runs.setdefault(point.commit.hash, (point.commit, []))[1].append(point.value)
    return [(commit, median(values)) for commit, values in runs.values()]


def runs_of(points: Iterable[Point], line: Sequence[tuple[Commit, float]]) -> list[str]:
    """Prefix of the newest run of each commit, for the URL of the point."""
    newest = {point.commit.hash: point.run[:RUN_DIGITS] for point in points if point.status is Status.OK}
    return [newest[commit.hash] for commit, _ in line]


def x_axis(frame: Frame, window: tuple[Commit, Commit] | None) -> dict[str, Any]:
    """Axis of commits or dates, cut to the window; series.js adds more commit names if they fit."""
    first, last = window or (frame.commits[0], frame.commits[-1]) if frame.commits else (None, None)
    if first is None or last is None:
        return {}
    if frame.spacing is Spacing.DATE:
        time = (last.date - first.date) * _ROOM or timedelta(hours=12)
        return date_axis(range=[(first.date - time).isoformat(), (last.date + time).isoformat()])
    low, high = int(frame.x(first)), int(frame.x(last))
    room = 0.5 + (high - low) * _ROOM
    named: dict[int, Commit] = {}  # by the part of the axis that a name fills
    for commit in frame.commits:
        at = int(frame.x(commit))
        if low <= at <= high:
            named.setdefault(_NAMES * (at - low) // (high - low + 1), commit)
    return {
        "type": "linear",
        "range": [low - room, high + room],
        "tickmode": "array",
        "tickvals": [frame.x(commit) for commit in named.values()],
        "ticktext": [commit_tick(commit) for commit in named.values()],
        "tickangle": 0,
        "tickfont_family": MONOSPACE,
    }


def commit_tick(commit: Commit) -> str:
    """Tick label of a commit: hash and day (UTC)."""
    return f"{commit.hash[:8]}<br>{commit.date:%Y-%m-%d}"


def meta(frame: Frame, extent: Extent) -> dict[str, Any]:
    """Data of the page's scripts: commits, and whether zooming would show more points."""
    return {
        "commits": [commit.hash[:8] for commit in frame.commits],
        "days": [f"{commit.date:%Y-%m-%d}" for commit in frame.commits],
        "places": [frame.x(commit) for commit in frame.commits],
        "spacing": frame.spacing.value,
        "thinned": extent.is_thinned,
        "whole_inside": extent.drawn_inside == extent.points_inside,
        "said": thinning_note(extent),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class AxisUnit:
    """Title of the axis, and the transform from recorded to displayed values."""

    title: str
    transform: Transform
    typical: float | None  # displayed value in the middle; None without values
    is_percent: bool = False


def baselines_of(history: History) -> tuple[OtherHistory, ...]:
    """The baselines that the series can be shown relative to."""
    unit = history.series.metric.unit
    return tuple(
        other
        for other in history.others
        if other.series.is_baseline and other.series.metric.unit == unit and by_commit(other.points)
    )


def axis_unit(shown: ShownHistory, wanted: str) -> AxisUnit:
    """The unit of `wanted`: "percent", the name of a baseline, else as recorded."""
    history = shown.history
    metric = history.series.metric
    baseline = next((one for one in baselines_of(history) if one.series.implementation == wanted), None)
    own = by_commit(shown.points_inside) or by_commit(history.points)
    if baseline is not None:
        divisor = {commit.hash: value for commit, value in by_commit(baseline.points) if value > 0}
        transform = Transform(divisor=divisor, is_inverse=metric.is_time)
        ratios = [y for commit, value in own if (y := transform(value, commit)) is not None]
        word = "speedup over" if metric.is_time else f"{metric.label} relative to"
        return AxisUnit(
            title=f"{word} {look(wanted).label} (×)",
            transform=transform,
            typical=median(ratios) if ratios else None,
        )
    if wanted == PERCENT and own and own[0][1] > 0:
        first = own[0][1]
        return AxisUnit(
            title=f"{metric.label} relative to {own[0][0].hash[:8]} (%)",
            transform=Transform(factor=100 / first, offset=-100.0),
            typical=0.0,
            is_percent=True,
        )
    typical = typical_value(history)
    factor, unit = quantities.axis_unit(1.0 if typical is None else typical, metric.unit)
    return AxisUnit(
        title=f"{metric.label} ({unit})" if unit not in {"", "unit"} else metric.label,
        transform=Transform(factor=factor),
        typical=None if typical is None else typical * factor,
    )


def typical_value(history: History) -> float | None:
    """The median of the series' values, else of the first other implementation with any."""
    lines = (history.points, *(other.points for other in history.others))
    values = next(filter(None, ([p.value for p in points if p.value is not None] for points in lines)), [])
    return median(values) if values else None

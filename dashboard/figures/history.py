"""A series over commits: values and their spread, levels, changepoints, rivals and twins, and what is no number."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median
from typing import Any

from warpwatch.dashboard import quantities
from warpwatch.dashboard.figures.hover import change_text, no_number_text, point_text
from warpwatch.dashboard.figures.layout import axis, layout, plain
from warpwatch.dashboard.figures.palette import BETTER, INK, MUTED, SURFACE, WORSE, look
from warpwatch.dashboard.store.records import Commit, History, Point, SeriesChange, Status

_FAR = 4.0  # another implementation this many times away starts hidden, so that our own history stays readable
_LABELLED_CHANGES = 8  # the largest get their magnitude written on the figure; all have it in the hover


class Spacing(StrEnum):
    """What the horizontal axis counts."""

    COMMIT = "commit"
    DATE = "date"


class Scale(StrEnum):
    """How the vertical axis grows."""

    LINEAR = "linear"
    LOG = "log"


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryView:
    """How a reader wants to see a history: axes, and the first and last commit on display (None: all)."""

    spacing: Spacing = Spacing.COMMIT
    scale: Scale = Scale.LINEAR
    first: str | None = None  # prefixes of hashes
    last: str | None = None


@dataclass(frozen=True, slots=True)
class _Frame:
    """Where a commit stands on the horizontal axis, and how recorded values become displayed ones."""

    commits: tuple[Commit, ...]
    spacing: Spacing
    factor: float

    def x(self, commit: Commit) -> str:
        return commit.hash[:8] if self.spacing is Spacing.COMMIT else commit.date.isoformat()

    def y(self, value: float | None) -> float | None:
        return None if value is None else value * self.factor


def history_figure(history: History, view: HistoryView) -> dict[str, Any]:
    """Plotly's JSON for a series' page. `layout.meta.commits` lists what the horizontal axis shows, oldest first."""
    lines = (history.points, *(other.points for other in history.others))
    values = next(filter(None, ([p.value for p in points if p.value is not None] for points in lines)), [])
    typical = median(values) if values else 1.0
    factor, unit = quantities.axis_unit(typical, history.series.metric.unit)
    frame = _Frame(_commits(history), view.spacing, factor)
    no_number = [point for point in history.points if point.status is not Status.OK]
    data = [
        *_band(history.points, frame),
        *_own_values(history, frame),
        *_levels(history, frame),
        *_others(history, frame, typical),
        *_changes(history, frame),
        *_no_numbers(no_number, frame),
    ]
    label = history.series.metric.label
    name = f"{label} ({unit})" if unit not in {"", "unit"} else label
    # Noise of a thousandth must not fill the height: the axis spans at least 6 % of the typical value.
    least = {"autorangeoptions": {"include": [typical * factor * 0.97, typical * factor * 1.03]}} if typical else {}
    return {
        "data": data,
        "layout": layout(
            hovermode="closest",
            # Under the strip where there is one; plotly knows no yaxis if all its traces are empty.
            xaxis={**_x_axis(frame, view), "anchor": "y2" if no_number else "y"},
            yaxis=axis(
                plain(name),
                type=view.scale.value,
                domain=[0.1, 1] if no_number else [0, 1],
                exponentformat="SI",
                **(least if values else {"range": [0, 1], "showticklabels": False}),
            ),
            **({"yaxis2": _strip_axis()} if no_number else {}),
            shapes=[_change_line(change, frame) for change in history.changes],
            annotations=_change_labels(history.changes, frame),
            meta={
                "commits": [commit.hash[:8] for commit in frame.commits],
                "dates": [commit.date.isoformat() for commit in frame.commits],
                "spacing": view.spacing.value,
            },
        ),
    }


def _commits(history: History) -> tuple[Commit, ...]:
    lines: Iterable[Sequence[Point]] = (history.points, *(other.points for other in history.others))
    seen = {point.commit.hash: point.commit for points in lines for point in points}
    return tuple(sorted(seen.values(), key=lambda commit: (commit.position, commit.date)))


def _by_commit(points: Iterable[Point]) -> list[tuple[Commit, float]]:
    """The median of each commit that has a number."""
    runs: dict[str, tuple[Commit, list[float]]] = {}
    for point in points:
        if point.status is Status.OK and point.value is not None:
            runs.setdefault(point.commit.hash, (point.commit, []))[1].append(point.value)
    return [(commit, median(values)) for commit, values in runs.values()]


def _band(points: Sequence[Point], frame: _Frame) -> list[dict[str, Any]]:
    """Between the first and third quartile of the samples."""
    spread = {p.commit.hash: p for p in points if p.q25 is not None and p.q75 is not None and p.status is Status.OK}
    if len(spread) < 2:
        return []
    x = [frame.x(point.commit) for point in spread.values()]
    common = {
        "x": x,
        "mode": "lines",
        "line": {"width": 0},
        "hoverinfo": "skip",
        "showlegend": False,
        "legendgroup": "own",
    }
    return [
        {**common, "y": [frame.y(point.q25) for point in spread.values()]},
        {**common, "y": [frame.y(point.q75) for point in spread.values()], "fill": "tonexty",
         "fillcolor": "--ww-band"},
    ]  # fmt: skip


def _own_values(history: History, frame: _Frame) -> list[dict[str, Any]]:
    """A point for each run. The line goes through commits' medians, which are the points where each has one run."""
    own = look(history.series.implementation)
    numbers = [point for point in history.points if point.status is Status.OK]
    line = _by_commit(numbers)
    single = len(line) == len(numbers)
    size = 7 if len(numbers) < 60 else 5 if len(numbers) < 300 else 4
    label = own.label if history.series.implementation else "value"
    stroke = {"color": own.colour, "width": 1.2 if len(line) < 200 else 0.5}
    through_medians = {
        "name": "median of runs", "legendgroup": "own", "showlegend": False, "mode": "lines",
        "x": [frame.x(commit) for commit, _ in line],
        "y": [frame.y(value) for _, value in line],
        "line": stroke, "hoverinfo": "skip",
    }  # fmt: skip
    points = {
        "name": plain(label), "legendgroup": "own", "mode": "lines+markers" if single else "markers",
        "x": [frame.x(point.commit) for point in numbers],
        "y": [frame.y(point.value) for point in numbers],
        "line": stroke, "marker": {"color": own.colour, "size": size},
        "text": [point_text(point, history.series.metric.unit) for point in numbers],
        "hovertemplate": "%{text}<extra></extra>",
        "customdata": [point.commit.hash for point in numbers],
    }  # fmt: skip
    return [points] if single else [through_medians, points]


def _levels(history: History, frame: _Frame) -> list[dict[str, Any]]:
    """Each segment's level as a line from its first to its last commit."""
    line = _by_commit(history.points)
    if not history.changes or not line:
        return []
    changes = sorted(history.changes, key=lambda change: change.index)
    starts = [0, *(change.index for change in changes)]
    ends = [*(change.index - 1 for change in changes), len(line) - 1]
    levels = [changes[0].before, *(change.after for change in changes)]
    x: list[str | None] = []
    y: list[float | None] = []
    for start, end, level in zip(starts, ends, levels, strict=True):
        if start >= len(line):
            break
        x += [frame.x(line[start][0]), frame.x(line[min(end, len(line) - 1)][0]), None]
        y += [frame.y(level), frame.y(level), None]
    return [{"name": "level", "mode": "lines", "x": x, "y": y, "line": {"color": INK, "width": 2}, "hoverinfo": "skip"}]


def _others(history: History, frame: _Frame, typical: float) -> list[dict[str, Any]]:
    traces = []
    for other in history.others:
        line = _by_commit(other.points)
        if not line:
            continue
        theirs = look(other.series.implementation)
        unit = other.series.metric.unit
        newest = {p.commit.hash: p for p in other.points if p.status is Status.OK}
        distance = median(value for _, value in line) / typical if typical else 1.0
        traces.append(
            {
                "name": plain(theirs.label), "mode": "lines+markers",
                "visible": True if 1 / _FAR <= distance <= _FAR else "legendonly",
                "x": [frame.x(commit) for commit, _ in line],
                "y": [frame.y(value) for _, value in line],
                "line": {"color": theirs.colour, "width": 1.5, "dash": theirs.dash},
                "marker": {"color": theirs.colour, "size": 6,
                           "symbol": "circle-open" if other.series.is_baseline else "diamond"},
                "text": [f"<b>{plain(theirs.label)}</b> {point_text(newest[commit.hash], unit)}"
                         for commit, _ in line],
                "hovertemplate": "%{text}<extra></extra>",
                "customdata": [commit.hash for commit, _ in line],
            }
        )  # fmt: skip
    return traces


def _changes(history: History, frame: _Frame) -> list[dict[str, Any]]:
    """A triangle at each changepoint, upwards where the value went up; worse and better are two legend entries."""
    traces = []
    for worse, name, colour in ((True, "regression", WORSE), (False, "improvement", BETTER)):
        changes = [change for change in history.changes if change.is_worse is worse]
        if changes:
            traces.append(
                {
                    "name": name, "mode": "markers",
                    "x": [frame.x(change.commit) for change in changes],
                    "y": [frame.y(change.after) for change in changes],
                    "marker": {"color": colour, "size": 12, "line": {"width": 1, "color": SURFACE},
                               "symbol": ["triangle-up" if c.magnitude > 0 else "triangle-down" for c in changes]},
                    "text": [change_text(change, history.series.metric) for change in changes],
                    "hovertemplate": "%{text}<extra></extra>",
                    "customdata": [change.commit.hash for change in changes],
                    "cliponaxis": False,
                }
            )  # fmt: skip
    return traces


def _change_labels(changes: Sequence[SeriesChange], frame: _Frame) -> list[dict[str, Any]]:
    """The magnitudes of the largest changes, at the upper end of their lines, where no value is in the way."""
    largest = sorted(changes, key=lambda change: -abs(change.magnitude))[:_LABELLED_CHANGES]
    return [
        {
            "x": frame.x(change.commit), "xref": "x", "y": 1, "yref": "paper", "xanchor": "left", "yanchor": "top",
            "text": quantities.change(change.magnitude, change.before), "showarrow": False, "xshift": 2,
            "bgcolor": SURFACE, "borderpad": 1, "font": {"color": WORSE if change.is_worse else BETTER, "size": 11},
        }
        for change in largest
    ]  # fmt: skip


def _no_numbers(points: Sequence[Point], frame: _Frame) -> list[dict[str, Any]]:
    """A cross for what went wrong or is not there, a dash for what nobody measured as its code stood still."""
    skipped = [point for point in points if point.status is Status.UNCHANGED]
    failed = [point for point in points if point.status is not Status.UNCHANGED]
    return [
        {
            "name": name, "mode": "markers", "yaxis": "y2",
            "x": [frame.x(point.commit) for point in mine],
            "y": [0] * len(mine),
            "marker": {"color": MUTED, "size": 8, "symbol": symbol, "line": {"width": 2}},
            "text": [no_number_text(point) for point in mine],
            "hovertemplate": "%{text}<extra></extra>",
            "customdata": [point.commit.hash for point in mine],
        }
        for name, symbol, mine in (("no number", "x-thin-open", failed), ("code unchanged", "line-ew-open", skipped))
        if mine
    ]  # fmt: skip


def _change_line(change: SeriesChange, frame: _Frame) -> dict[str, Any]:
    x = frame.x(change.commit)
    colour = WORSE if change.is_worse else BETTER
    return {
        "type": "line", "xref": "x", "yref": "paper", "x0": x, "x1": x, "y0": 0, "y1": 1, "layer": "below",
        "line": {"color": colour, "width": 1, "dash": "dot"},
    }  # fmt: skip


def _x_axis(frame: _Frame, view: HistoryView) -> dict[str, Any]:
    window = _window(frame, view)
    if view.spacing is Spacing.DATE:
        return axis("", type="date", **({"range": window} if window else {}))
    return axis(
        "",
        type="category",
        categoryorder="array",
        categoryarray=[commit.hash[:8] for commit in frame.commits],
        tickangle=0,
        tickfont={"color": MUTED, "size": 11, "family": "ui-monospace, monospace"},
        **({"range": window} if window else {}),
    )


def _window(frame: _Frame, view: HistoryView) -> list[Any] | None:
    """The range of the horizontal axis that shows the asked commits; None (everything) if neither is known."""
    first = _index(frame.commits, view.first)
    last = _index(frame.commits, view.last)
    if (first is None and last is None) or not frame.commits:
        return None
    low = 0 if first is None else first
    high = len(frame.commits) - 1 if last is None else last
    low, high = min(low, high), max(low, high)
    if view.spacing is Spacing.COMMIT:
        return [low - 0.5, high + 0.5]
    return [frame.commits[low].date.isoformat(), frame.commits[high].date.isoformat()]


def _index(commits: Sequence[Commit], prefix: str | None) -> int | None:
    if not prefix:
        return None
    return next((index for index, commit in enumerate(commits) if commit.hash.startswith(prefix)), None)


def _strip_axis() -> dict[str, Any]:
    """A low strip under the plot for commits that have a reason instead of a number."""
    return axis("", domain=[0, 0.05], range=[-1, 1], showticklabels=False, showgrid=False, fixedrange=True)

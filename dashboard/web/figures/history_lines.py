"""Lines of a history: values, quartiles, levels, other implementations, overlaid series."""

import itertools
from collections.abc import Iterator, Sequence
from statistics import median
from typing import Any

import plotly.graph_objects as go

from ...model import quantities
from ...model.history import History, LevelLine, OtherHistory, ShownHistory, Spread
from ...model.naming import gpu_name, name_in_module
from ...model.series import Commit, Point, Series, Status
from ...text.labels import shortened
from .history_view import RUN_DIGITS, Frame, Scale, by_commit, runs_of
from .hover import SHOW_TEXT, commit_text, no_number_text, point_text
from .style import BAND, INK, MUTED, SURFACE, Domain, label, look, plain

_FAR = 4.0  # other implementations beyond this factor start hidden
_PANE_AXIS = 5  # first y axis of the overlays
_MAX_HEADING = 90  # characters


def band(spread: Sequence[Spread], frame: Frame) -> list[go.Scatter]:
    """First to third quartile of the samples."""
    if len(spread) < 2:
        return []
    common: dict[str, Any] = {
        "x": [frame.x(each.commit) for each in spread],
        "mode": "lines",
        "line_width": 0,
        "hoverinfo": "skip",
        "legendgroup": "quartiles",
    }
    upper = [frame.y(each.high, each.commit) for each in spread]
    return [
        go.Scatter(y=[frame.y(each.low, each.commit) for each in spread], showlegend=False, **common),
        go.Scatter(name="quartiles of the samples", y=upper, fill="tonexty", fillcolor=BAND, **common),
    ]


def own_values(history: History, frame: Frame, *, is_thin: bool = False) -> list[go.Scatter]:
    """One point per run; the line connects the medians of commits. Thin where there is a GPU-adjusted line."""
    own = look(history.series.implementation)
    numbers = [point for point in history.points if point.status is Status.OK]
    line = by_commit(numbers)
    single = len(line) == len(numbers)
    size = 7 if len(numbers) < 60 else 5 if len(numbers) < 300 else 4
    stroke = {"color": own.colour, "width": 1.2 if len(line) < 200 and not is_thin else 0.5}
    points = go.Scatter(
        name=plain(own.label if history.series.implementation else "value"),
        legendgroup="own",
        mode="lines+markers" if single else "markers",
        x=[frame.x(point.commit) for point in numbers],
        y=[frame.y(point.value, point.commit) for point in numbers],
        line=stroke,
        marker={"color": own.colour, "size": size},
        hovertemplate=SHOW_TEXT,
        text=[
            point_text(point, history.series.metric.unit, more=more, short=frame.is_long)
            for point, more in zip(numbers, _compared(history, numbers, line), strict=True)
        ],
        customdata=[point.run[:RUN_DIGITS] for point in numbers],
    )
    if single:
        return [points]
    through_medians = go.Scatter(
        name="median of runs",
        legendgroup="own",
        showlegend=False,
        mode="lines",
        x=[frame.x(commit) for commit, _ in line],
        y=[frame.y(value, commit) for commit, value in line],
        line=stroke,
        hoverinfo="skip",
    )
    return [through_medians, points]


def _compared(history: History, numbers: Sequence[Point], line: Sequence[tuple[Commit, float]]) -> Iterator[list[str]]:
    """Hover lines of each point: change from the previous commit, fastest baseline, GPU."""
    before = {commit.hash: previous for previous, (commit, _) in itertools.pairwise(line)}
    rivals: dict[str, tuple[float, str]] = {}
    for other in history.others:
        if other.series.is_baseline and other.series.metric.unit == history.series.metric.unit:
            for commit, value in by_commit(other.points):
                theirs = (value, look(other.series.implementation).label)
                rivals[commit.hash] = min(theirs, rivals.get(commit.hash, theirs))
    for point in numbers:
        lines = []
        if point.value is not None and (known := before.get(point.commit.hash)) is not None:
            previous, value = known
            if value:
                lines.append(f"{quantities.change(point.value / value - 1)} against {previous.hash[:8]}")
        if point.value is not None and (rival := rivals.get(point.commit.hash)) is not None:
            value, name = rival
            baseline = f"{name} {quantities.quantity(value, history.series.metric.unit)}"
            is_speed = history.series.metric.is_time and point.value > 0
            lines.append(f"{quantities.ratio(value / point.value)} as fast as {baseline}" if is_speed else baseline)
        if point.gpu is not None:
            lines.append(f"on {gpu_name(point.gpu)}")
        yield lines


def adjusted_line(shown: ShownHistory, frame: Frame) -> list[go.Scatter]:
    """The values as the newest session's GPU and software would have measured them."""
    if not shown.adjusted:
        return []
    series = shown.history.series
    return [
        go.Scatter(
            name="GPU-adjusted",
            mode="lines",
            x=[frame.x(commit) for commit, _ in shown.adjusted],
            y=[frame.y(value, commit) for commit, value in shown.adjusted],
            line={"color": look(series.implementation).colour, "width": 3.5},
            opacity=0.55,
            hovertemplate=SHOW_TEXT,
            text=[
                f"<b>{quantities.quantity(value, series.metric.unit)}</b> GPU-adjusted<br>{commit_text(commit)}"
                for commit, value in shown.adjusted
            ],
        )
    ]


def level_lines(levels: Sequence[LevelLine], frame: Frame) -> list[go.Scatter]:
    """Level of each segment and GPU, as a line from its first to its last commit."""
    if not levels:
        return []
    x: list[str | int | None] = []
    y: list[float | None] = []
    for level in levels:
        x += [frame.x(level.first), frame.x(level.last), None]
        y += [frame.y(level.value, level.first), frame.y(level.value, level.last), None]
    return [go.Scatter(name="level", mode="lines", x=x, y=y, line={"color": INK, "width": 2}, hoverinfo="skip")]


def other_lines(history: History, frame: Frame, typical: float) -> list[go.Scatter]:
    """Baselines hollow and dashed, our other implementations solid; distant ones start hidden."""
    traces = []
    for other in history.others:
        line = by_commit(other.points)
        if not line:
            continue
        theirs = look(other.series.implementation)
        unit = other.series.metric.unit
        newest = {p.commit.hash: p for p in other.points if p.status is Status.OK}
        distance = median(value for _, value in line) / typical if typical else 1.0
        traces.append(
            go.Scatter(
                name=plain(theirs.label),
                mode="lines+markers",
                visible=True if 1 / _FAR <= distance <= _FAR else "legendonly",
                x=[frame.x(commit) for commit, _ in line],
                y=[frame.y(value, commit) for commit, value in line],
                line={"color": theirs.colour, "width": 0.7 if frame.is_long else 1.5, "dash": theirs.dash},
                marker={
                    "color": theirs.colour,
                    "size": 3 if frame.is_long else 6,
                    "symbol": "circle-open" if other.series.is_baseline else "diamond",
                },
                hovertemplate=SHOW_TEXT,
                text=[
                    f"<b>{plain(theirs.label)}</b> {point_text(newest[commit.hash], unit, short=frame.is_long)}"
                    for commit, _ in line
                ],
                customdata=runs_of(other.points, line),
            )
        )
    return traces


def overlay_lines(overlays: Sequence[OtherHistory], frame: Frame) -> list[go.Scatter]:
    """One small plot per overlaid series."""
    traces: list[go.Scatter] = []
    for number, each in enumerate(overlays):
        line = by_commit(each.points)
        factor, _ = _scale(each)
        newest = {p.commit.hash: p for p in each.points if p.status is Status.OK}
        theirs = look(each.series.implementation)
        at = {commit.hash: value for commit, value in line}
        common: dict[str, Any] = {"yaxis": f"y{_PANE_AXIS + number}", "showlegend": False}
        if not line:
            traces.append(_never_a_number(each, frame, common))
            continue
        traces.append(
            go.Scatter(
                name=plain(name_in_project(each.series)),
                mode="lines+markers",
                x=[frame.x(commit) for commit, _ in line],
                y=[value * factor for _, value in line],
                line={"color": theirs.colour, "width": 1.2, "dash": theirs.dash},
                marker={"color": theirs.colour, "size": 4 if frame.is_long else 5},
                hovertemplate=SHOW_TEXT,
                text=[
                    point_text(newest[commit.hash], each.series.metric.unit, short=frame.is_long) for commit, _ in line
                ],
                customdata=runs_of(each.points, line),
                **common,
            )
        )
        changes = [change for change in each.changes if change.commit.hash in at]
        if changes:
            traces.append(
                go.Scatter(
                    mode="markers",
                    hoverinfo="skip",
                    x=[frame.x(change.commit) for change in changes],
                    y=[change.after * factor for change in changes],
                    marker={
                        "color": INK,
                        "size": 10,
                        "line": {"width": 1, "color": SURFACE},
                        "symbol": ["triangle-up" if c.magnitude > 0 else "triangle-down" for c in changes],
                    },
                    **common,
                )
            )
    return traces


def _never_a_number(each: OtherHistory, frame: Frame, common: dict[str, Any]) -> go.Scatter:
    """Crosses with reasons; a gap if there are no points, since plotly drops axes without data."""
    height: list[float | None] = [0.5] * len(each.points)
    return go.Scatter(
        name=plain(name_in_project(each.series)),
        mode="markers",
        x=[frame.x(point.commit) for point in each.points] or [0],
        y=height or [None],
        marker={"color": MUTED, "size": 8, "symbol": "x-thin-open", "line_width": 2},
        hovertemplate=SHOW_TEXT,
        text=[no_number_text(point) for point in each.points],
        **common,
    )


def overlay_axes(overlays: Sequence[OtherHistory], domains: Sequence[Domain], scale: Scale) -> dict[str, Any]:
    """Axes by name in plotly's layout; each spans at least 6 % of the typical value."""
    found = {}
    for number, (each, domain) in enumerate(zip(overlays, domains, strict=True)):
        factor, unit = _scale(each)
        values = [value * factor for _, value in by_commit(each.points)]
        more: dict[str, Any] = {"type": "linear", "range": [0, 1], "showticklabels": False}
        if values:
            middle = median(values)
            more = {"type": scale.value, "autorangeoptions": {"include": [middle * 0.97, middle * 1.03]}}
        found[f"yaxis{_PANE_AXIS + number}"] = {
            "title_text": plain("" if unit == "unit" else unit),
            "domain": domain,
            "exponentformat": "SI",
            "nticks": 4,
            "fixedrange": True,
            **more,
        }
    return found


def overlay_headings(
    overlays: Sequence[OtherHistory], domains: Sequence[Domain], own: Series
) -> list[go.layout.Annotation]:
    """Headings of the small plots: how each series differs from the page's."""
    return [
        label(
            plain(shortened(_other_than(each.series, own), _MAX_HEADING)),
            0,
            domain[1],
            name="heading",
            yshift=1,
            align="left",
            font_size=12,
        )
        for each, domain in zip(overlays, domains, strict=True)
    ]


def name_in_project(series: Series) -> str:
    """Name of a series within its project: workload, implementation, metric and machine."""
    return " · ".join(_name_parts(series))


def _other_than(series: Series, own: Series) -> str:
    shared = set(_name_parts(own))
    if series.suite != own.suite:
        return name_in_project(series)
    return " · ".join(part for part in _name_parts(series) if part not in shared) or name_in_project(series)


def _name_parts(series: Series) -> list[str]:
    case = series.workload or name_in_module(series.benchmark)
    values = [value for name, value in series.parameters if value and name not in {"workload", "implementation"}]
    implementation = [look(series.implementation).label] if series.implementation else []
    metric = [series.metric.label] if series.workload else []
    return [case, *values, *implementation, *metric, series.machine]


def _scale(each: OtherHistory) -> tuple[float, str]:
    values = [value for _, value in by_commit(each.points)]
    return quantities.axis_unit(median(values) if values else 1.0, each.series.metric.unit)

"""The figure of a series: values, quartiles, levels, changepoints, other implementations, failures."""

from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go

from ...model.history import History, ShownHistory
from ...model.series import Commit, Point, Status
from .history_lines import (
    adjusted_line,
    band,
    level_lines,
    other_lines,
    overlay_axes,
    overlay_headings,
    overlay_lines,
    own_values,
)
from .history_markers import (
    canary_axis,
    canary_lines,
    change_labels,
    change_lines,
    change_traces,
    episode_traces,
    mark_axis,
    mark_labels,
    mark_lines,
    mark_traces,
)
from .history_view import RUN_DIGITS, AxisUnit, Frame, HistoryView, Scale, axis_unit, meta, typical_value, x_axis
from .hover import SHOW_TEXT, no_number_text
from .style import INK, MUTED, Domain, Panes, figure, label, panes, plain

_NEAR_ZERO = 0.1  # of the largest value: such axes start at zero


def history_figure(shown: ShownHistory, view: HistoryView) -> go.Figure:
    """The figure of a series' page; `layout.meta` is for the page's scripts."""
    history = shown.history
    unit = axis_unit(shown, view.unit)
    frame = Frame(_commits(shown), shown.positions, view.spacing, unit.transform)
    scale = Scale.LINEAR if unit.is_percent else view.scale  # there is no logarithm of a negative per cent
    is_relative = unit.transform.divisor is not None  # the GPU's part cancels: no adjusted values, levels and quartiles
    no_number = [point for point in history.points if point.status is not Status.OK]
    canaries = canary_lines(history.canaries, frame)
    parts = panes(
        no_numbers=bool(no_number),
        marks=bool(shown.marks),
        canaries=bool(canaries),
        overlays=len(shown.added),
        lanes=min(len(history.changes), 2),
    )
    is_ours = history.series.is_ours
    data = [
        *([] if is_relative else band(shown.band, frame)),
        *own_values(history, frame, is_thin=bool(shown.adjusted) and not is_relative),
        *([] if is_relative else [*adjusted_line(shown, frame), *level_lines(shown.levels, frame)]),
        *other_lines(history, frame, typical_value(history) or 1.0),
        *change_traces(history, frame),
        *episode_traces(history, frame),
        *_no_numbers(no_number, frame),
        *mark_traces(shown.marks, frame),
        *canaries,
        *overlay_lines(shown.added, frame),
        _chosen(),
    ]
    axes = {
        "xaxis": {**x_axis(frame, shown.window), "anchor": _lowest(parts)},
        "yaxis": _value_axis(unit, scale, parts.main),
        **({"yaxis2": mark_axis(parts.no_numbers)} if no_number else {}),
        **({"yaxis3": canary_axis(canaries, parts.canaries)} if canaries else {}),
        **({"yaxis4": mark_axis(parts.marks)} if shown.marks else {}),
        **overlay_axes(shown.added, parts.overlays, view.scale),
    }
    return figure(
        data,
        **axes,
        shapes=[*mark_lines(shown.marks, frame), *change_lines(history.changes, frame, is_ours)],
        annotations=[
            *change_labels(history.changes, frame, is_ours),
            *mark_labels(shown.marks, frame, parts.marks),
            *overlay_headings(shown.added, parts.overlays, history.series),
            *([] if unit.is_percent else _not_from_zero(history, frame, scale, parts.main)),
        ],
        meta=meta(frame, shown.extent),
    )


def _commits(shown: ShownHistory) -> tuple[Commit, ...]:
    """All drawn commits and those of the window, oldest first."""
    history = shown.history
    lines: list[Sequence[Point]] = [history.points, *(other.points for other in history.others)]
    lines += [overlay.points for overlay in shown.added]
    seen = {point.commit.hash: point.commit for points in lines for point in points}
    seen.update({commit.hash: commit for commit in shown.window or ()})
    return tuple(sorted(seen.values(), key=lambda commit: (commit.position, commit.date)))


def _lowest(parts: Panes) -> str:
    """The lowest y axis, below which the commits are named."""
    names = ("y", "y2", "y3", "y4", *(f"y{5 + number}" for number in range(len(parts.overlays))))
    domains = (parts.main, parts.no_numbers, parts.canaries, parts.marks, *parts.overlays)
    present = [(domain, name) for domain, name in zip(domains, names, strict=True) if domain[1] > domain[0]]
    return min(present)[1]


def _value_axis(unit: AxisUnit, scale: Scale, domain: Domain) -> dict[str, Any]:
    if unit.typical is None:
        more: dict[str, Any] = {"range": [0, 1], "showticklabels": False}
    elif unit.is_percent:
        more = {"autorangeoptions": {"include": [-3, 3]}, "ticksuffix": " %"}
    else:
        # At least 6 % of the typical value, so that noise does not fill the height.
        ends = [unit.typical * 0.97, unit.typical * 1.03]
        more = {"autorangeoptions": {"include": ends}} if unit.typical else {}
    return {
        "title_text": plain(unit.title),
        "type": scale.value,
        "domain": domain,
        "exponentformat": "SI",
        **more,
    }


def _not_from_zero(history: History, frame: Frame, scale: Scale, domain: Domain) -> list[go.layout.Annotation]:
    """A note at a linear axis that does not start at zero."""
    displayed = [frame.y(point.value, point.commit) for point in history.points]
    values = [value for value in displayed if value is not None]
    if scale is not Scale.LINEAR or not values or min(values) <= _NEAR_ZERO * max(values):
        return []
    return [label("axis does not start at 0", 0, domain[0], name="foot", font_size=10)]


def _no_numbers(points: Sequence[Point], frame: Frame) -> list[go.Scatter]:
    """A cross for failed measurements, a dash for commits skipped because their code is unchanged."""
    skipped = [point for point in points if point.status is Status.UNCHANGED]
    failed = [point for point in points if point.status is not Status.UNCHANGED]
    return [
        go.Scatter(
            name=name,
            mode="markers",
            yaxis="y2",
            x=[frame.x(point.commit) for point in mine],
            y=[0] * len(mine),
            marker={"color": MUTED, "size": 8, "symbol": symbol, "line_width": 2},
            hovertemplate=SHOW_TEXT,
            text=[no_number_text(point) for point in mine],
            customdata=[point.run[:RUN_DIGITS] for point in mine],
        )
        for name, symbol, mine in (("no number", "x-thin-open", failed), ("code unchanged", "line-ew-open", skipped))
        if mine
    ]


def _chosen() -> go.Scatter:
    """A ring around the selected point; series.js moves it."""
    return go.Scatter(
        name="chosen",
        mode="markers",
        x=[],
        y=[],
        hoverinfo="skip",
        showlegend=False,
        marker={"color": "rgba(0,0,0,0)", "size": 17, "line": {"width": 2, "color": INK}},
        cliponaxis=False,
    )

"""A machine's roofline: its roofs, and each workload x implementation under them.

After Williams, Waterman and Patterson, "Roofline" (CACM 52:4, 2009): both axes logarithmic, FLOP/byte across and
FLOP/s up. A point stands at the least bytes that must move; where a profiler saw the bytes that did move, that point is
faint, and a solid one at the measured intensity is joined to it. The trail of a point goes up or down: a commit changes
the time, not the work.
"""

from collections.abc import Sequence
from math import log10
from typing import Any

import plotly.graph_objects as go

from ...model.machine import Roofline, RooflinePoint
from .hover import SHOW_TEXT, profiled_text, roofline_text, trail_text
from .roofs import ridges, roof_labels, roof_lines, roofs_of
from .style import GRID, INK, MUTED, figure, look, plain

_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "hexagon", "cross", "pentagon", "star", "hourglass")
_LOGARITHMIC = {"type": "log", "dtick": 1, "minor": {"ticks": "outside", "ticklen": 3}}
_FAINT = 0.35
_GAP = "\u00a0\u00a0\u00a0"  # between a point and its name


def roofline_figure(roofline: Roofline) -> go.Figure:
    """Colour is the implementation; shape is the operator, or the implementation again where there are more operators
    than shapes; baselines are hollow.
    """
    roofs = roofs_of(roofline)
    points = [point for point in roofline.points if point.flop_rate > 0 and point.intensity > 0]
    dtypes = {point.workload.dtype for point in points}
    intensities = [point.intensity for point in points] + [x for p in points if (x := p.measured_intensity)]
    reach = intensities + ridges(roofs, dtypes) or [1.0]
    left, right = min(reach) / 4, max(reach) * 4
    lowest = min((point.flop_rate for point in points), default=None)
    return figure(
        [
            *roof_lines(roofs, dtypes, left, right),
            *_joins(points),
            *_trails(points),
            *_marks(points),
            *_operator_key(points),
            *_names(points),
        ],
        xaxis={
            "title_text": "arithmetic intensity (FLOP/byte)",
            "range": [log10(left), log10(right)],
            "tickformat": ",~g",
            **_LOGARITHMIC,
        },
        yaxis={"title_text": "throughput (FLOP/s)", "tickformat": "~s", **_LOGARITHMIC},
        annotations=roof_labels(roofs, dtypes, left, right, lowest),
    )


def _joins(points: Sequence[RooflinePoint]) -> list[go.Scatter]:
    """A line from the intensity by the least bytes to the one by the bytes that moved."""
    profiled = [(point, x) for point in points if (x := point.measured_intensity)]
    if not profiled:
        return []
    across = [place for point, measured in profiled for place in (point.intensity, measured, None)]
    up = [place for point, _ in profiled for place in (point.flop_rate, point.flop_rate, None)]
    line = {"color": MUTED, "width": 1, "dash": "dot"}
    return [go.Scatter(mode="lines", showlegend=False, hoverinfo="skip", x=across, y=up, line=line)]


def _trails(points: Sequence[RooflinePoint]) -> list[go.Scatter]:
    """From where each point of ours stood some commits ago, a short level line, through the commits since."""
    traces: list[go.Scatter] = []
    own = [point for point in points if len(point.trail) > 1 and not point.series.is_baseline]
    for implementation in sorted({point.implementation for point in own}):
        mine = [point for point in own if point.implementation == implementation]
        their_look = look(implementation)
        common: dict[str, Any] = {"legendgroup": implementation, "showlegend": False, "opacity": _FAINT}
        places = [(point.measured_intensity or point.intensity, point) for point in mine]
        traces.append(
            go.Scatter(
                mode="lines",
                hoverinfo="skip",
                x=[x for place, point in places for x in [*[place] * len(point.trail), None]],
                y=[y for point in mine for y in [*(point.workload.flops / one for one in point.trail), None]],
                line={"color": their_look.colour, "width": 3},
                **common,
            )
        )
        traces.append(
            go.Scatter(
                mode="markers",
                x=[place for place, _ in places],
                y=[point.workload.flops / point.trail[0] for point in mine],
                marker={"symbol": "line-ew-open", "size": 9, "color": their_look.colour, "line_width": 2},
                hovertemplate=SHOW_TEXT,
                text=[trail_text(point, their_look.label) for point in mine],
                customdata=[point.series.key for point in mine],
                **common,
            )
        )
    return traces


def _marks(points: Sequence[RooflinePoint]) -> list[go.Scatter]:
    symbols = _symbols(points)
    implementations = sorted({(point.series.is_baseline, point.implementation) for point in points}, key=_ours_first)
    traces = []
    for place, (is_rival, implementation) in enumerate(implementations):
        mine = [point for point in points if point.implementation == implementation]
        profiled = [(point, x) for point in mine if (x := point.measured_intensity)]
        their_look = look(implementation)
        own = _SYMBOLS[place % len(_SYMBOLS)]
        hollow = "-open" if is_rival else ""
        symbol_of = {point.workload.operator: symbols.get(point.workload.operator, own) + hollow for point in mine}
        common: dict[str, Any] = {
            "name": plain(their_look.label),
            "legendgroup": implementation,
            "mode": "markers",
        }
        marker: dict[str, Any] = {
            "color": their_look.colour,
            # Of several in one place each is seen: a small dot on a large one, in the ring of a rival.
            "size": 14 if is_rival else 11 if implementation == "warpwatch" else 7,
            "line": {"width": 1.6 if is_rival else 0.5, "color": their_look.colour if is_rival else GRID},
        }
        alone = [point for point in mine if not point.measured_intensity]
        full = [*alone, *(point for point, _ in profiled)]
        traces.append(
            go.Scatter(
                x=[*(point.intensity for point in alone), *(measured for _, measured in profiled)],
                y=[point.flop_rate for point in full],
                marker={**marker, "symbol": [symbol_of[point.workload.operator] for point in full]},
                hovertemplate=SHOW_TEXT,
                text=[
                    *(roofline_text(point, their_look.label) for point in alone),
                    *(profiled_text(point, their_look.label) for point, _ in profiled),
                ],
                customdata=[point.series.key for point in full],
                **common,
            )
        )
        if profiled:
            traces.append(
                go.Scatter(
                    showlegend=False,
                    x=[point.intensity for point, _ in profiled],
                    y=[point.flop_rate for point, _ in profiled],
                    marker={
                        **marker,
                        "symbol": [symbol_of[point.workload.operator] for point, _ in profiled],
                        "opacity": _FAINT,
                    },
                    hovertemplate=SHOW_TEXT,
                    text=[roofline_text(point, their_look.label) for point, _ in profiled],
                    customdata=[point.series.key for point, _ in profiled],
                    **common,
                )
            )
    return traces


def _ours_first(implementation: tuple[bool, str]) -> tuple[bool, bool, str]:
    is_rival, name = implementation
    return is_rival, name != "warpwatch", name


def _operator_key(points: Sequence[RooflinePoint]) -> list[go.Scatter]:
    """Legend entries without points: which shape is which operator. None where shapes are not theirs."""
    return [
        go.Scatter(
            name=plain(operator),
            mode="markers",
            x=[None],
            y=[None],
            hoverinfo="skip",
            marker={"color": MUTED, "size": 10, "symbol": symbol},
        )
        for operator, symbol in _symbols(points).items()
    ]


def _names(points: Sequence[RooflinePoint]) -> list[go.Scatter]:
    """Each operator's name at its fastest point of ours; roofline.js hides those without room."""
    fastest: dict[str, RooflinePoint] = {}
    for point in points:
        known = fastest.get(point.workload.operator)
        if not point.series.is_baseline and (known is None or known.flop_rate < point.flop_rate):
            fastest[point.workload.operator] = point
    if not fastest:
        return []
    return [
        go.Scatter(
            name="names",
            visible=False,
            mode="text",
            showlegend=False,
            hoverinfo="skip",
            textposition="middle right",
            x=[point.measured_intensity or point.intensity for point in fastest.values()],
            y=[point.flop_rate for point in fastest.values()],
            text=[f"{_GAP}{plain(operator)}{_GAP}" for operator in fastest],
            textfont={"color": INK, "size": 10},
        )
    ]


def _symbols(points: Sequence[RooflinePoint]) -> dict[str, str]:
    """A shape for each operator; none for one operator alone, and for more of them than shapes."""
    operators = sorted({point.workload.operator for point in points})
    return dict(zip(operators, _SYMBOLS, strict=False)) if 1 < len(operators) <= len(_SYMBOLS) else {}

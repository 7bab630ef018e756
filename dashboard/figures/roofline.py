"""A machine's roofline: its ceilings, and each workload x implementation under them.

After Williams, Waterman and Patterson, "Roofline" (CACM 52:4, 2009): both axes logarithmic, FLOP/byte across and
FLOP/s up.
"""

from collections.abc import Sequence
from math import log10
from typing import Any

from warpwatch.dashboard import quantities
from warpwatch.dashboard.figures.hover import roofline_text
from warpwatch.dashboard.figures.layout import axis, layout, plain
from warpwatch.dashboard.figures.palette import GRID, INK, MUTED, look
from warpwatch.dashboard.store.records import Ceilings, Roofline, RooflinePoint

_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "star", "hexagon", "cross", "pentagon", "hourglass")
_LOGARITHMIC = {"type": "log", "dtick": 1, "tickformat": "~s", "minor": {"ticks": "outside", "ticklen": 3}}


def roofline_figure(roofline: Roofline) -> dict[str, Any]:
    """Plotly's JSON: colour tells the implementation, shape the operator, and rivals are hollow."""
    points = [point for point in roofline.points if point.flop_rate > 0 and point.intensity > 0]
    dtypes = sorted({point.workload.dtype for point in points} & set(roofline.ceilings.flops))
    roofs = {dtype: roofline.ceilings.flops[dtype] for dtype in dtypes or sorted(roofline.ceilings.flops)}
    bandwidth = roofline.ceilings.bandwidth_bps
    left, right = _extent(points, roofs, bandwidth)
    return {
        "data": [
            *_roofs(roofs, bandwidth, left, right),
            *_marks(points),
            *_operator_key(points),
        ],
        "layout": layout(
            hovermode="closest",
            xaxis=axis("arithmetic intensity (FLOP/byte)", range=[log10(left), log10(right)], **_LOGARITHMIC),
            yaxis=axis("throughput (FLOP/s)", **_LOGARITHMIC),
            annotations=_roof_labels(roofs, roofline.ceilings, left, right),
        ),
    }


def _extent(points: Sequence[RooflinePoint], roofs: dict[str, float], bandwidth: float) -> tuple[float, float]:
    ridges = [peak / bandwidth for peak in roofs.values()]
    intensities = [point.intensity for point in points] + ridges or [1.0]
    return min(intensities) / 4, max(intensities) * 4


def _roofs(roofs: dict[str, float], bandwidth: float, left: float, right: float) -> list[dict[str, Any]]:
    """The slope of memory up to the highest ridge, and one ceiling a dtype from its own ridge on.

    Without any ceiling of math the slope goes on to the right edge.
    """
    line = {"color": INK, "width": 1.5}
    common = {"mode": "lines", "showlegend": False, "hoverinfo": "skip"}
    top = max(roofs.values(), default=right * bandwidth)
    slope = {**common, "x": [left, top / bandwidth], "y": [left * bandwidth, top], "line": line}
    dashes = ("solid", "dash", "dot", "dashdot")
    flats = [
        {**common, "x": [peak / bandwidth, right], "y": [peak, peak],
         "line": {**line, "dash": dashes[index % len(dashes)]}}
        for index, peak in enumerate(roofs.values())
    ]  # fmt: skip
    return [slope, *flats]


def _roof_labels(roofs: dict[str, float], ceilings: Ceilings, left: float, right: float) -> list[dict[str, Any]]:
    """What each roof is and who says so. Annotations on log axes stand at the logarithm of their place."""
    common = {"showarrow": False, "font": {"color": MUTED, "size": 11}, "borderpad": 2}
    labels = [
        {**common, "x": log10(right), "y": log10(peak), "xanchor": "right", "yanchor": "bottom",
         "text": plain(f"{dtype} {quantities.quantity(peak, 'FLOP/s')} ({ceilings.source})")}
        for dtype, peak in roofs.items()
    ]  # fmt: skip
    # It ends at three quarters of the slope, above it: further left the slope only falls away from the words.
    ridge = max(roofs.values(), default=right * ceilings.bandwidth_bps) / ceilings.bandwidth_bps
    end = left**0.25 * ridge**0.75
    memory = plain(f"{quantities.quantity(ceilings.bandwidth_bps, 'B/s')} ({ceilings.source})")
    labels.append(
        {**common, "x": log10(end), "y": log10(end * ceilings.bandwidth_bps), "xanchor": "right",
         "yanchor": "bottom", "text": memory}
    )  # fmt: skip
    return labels


def _marks(points: Sequence[RooflinePoint]) -> list[dict[str, Any]]:
    symbols = _symbols(points)
    implementations = sorted({(point.series.is_baseline, point.implementation) for point in points}, key=_ours_first)
    traces = []
    for is_rival, implementation in implementations:
        mine = [point for point in points if point.implementation == implementation]
        their_look = look(implementation)
        traces.append(
            {
                "name": plain(their_look.label),
                "mode": "markers",
                "x": [point.intensity for point in mine],
                "y": [point.flop_rate for point in mine],
                "marker": {
                    "color": their_look.colour,
                    "size": 10 if is_rival else 11,
                    "symbol": [symbols[point.workload.operator] + ("-open" if is_rival else "") for point in mine],
                    "line": {"width": 1.6 if is_rival else 0.5, "color": their_look.colour if is_rival else GRID},
                },
                "text": [roofline_text(point, their_look.label) for point in mine],
                "hovertemplate": "%{text}<extra></extra>",
                "customdata": [point.series.key for point in mine],
            }
        )
    return traces


def _ours_first(implementation: tuple[bool, str]) -> tuple[bool, bool, str]:
    is_rival, name = implementation
    return is_rival, name != "warpwatch", name


def _operator_key(points: Sequence[RooflinePoint]) -> list[dict[str, Any]]:
    """Legend entries without points: which shape is which operator."""
    return [
        {
            "name": plain(operator), "mode": "markers", "x": [None], "y": [None], "hoverinfo": "skip",
            "marker": {"color": MUTED, "size": 10, "symbol": symbol},
        }
        for operator, symbol in _symbols(points).items()
    ]  # fmt: skip


def _symbols(points: Sequence[RooflinePoint]) -> dict[str, str]:
    operators = sorted({point.workload.operator for point in points})
    return {operator: _SYMBOLS[index % len(_SYMBOLS)] for index, operator in enumerate(operators)}

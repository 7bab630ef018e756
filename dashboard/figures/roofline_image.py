"""A machine's roofline as a picture for a README: its roofs, each workload and implementation under them."""

from collections.abc import Mapping, Sequence

from warpwatch.dashboard.figures.palette import GRID, INK, MUTED, SURFACE, look
from warpwatch.dashboard.figures.plot_area import LEFT, RIGHT, PlotArea, Scale, label
from warpwatch.dashboard.figures.roofs import ridges, roof_lines, roofs_of
from warpwatch.dashboard.figures.svg import Theme, colours, drawing, element, text_width
from warpwatch.dashboard.quantities import quantity
from warpwatch.dashboard.store.machine_records import Roofline, RooflinePoint

_WIDTH, _HEIGHT = 800.0, 460.0
_KEY_ENTRIES = 7


def roofline_image(roofline: Roofline, theme: Theme) -> str:
    """The picture as an SVG file: measured roofs solid, the datasheet's thin, baselines hollow."""
    paint, machine, roofs = colours(theme), roofline.machine, roofs_of(roofline)
    points = [point for point in roofline.points if point.flop_rate > 0 and point.intensity > 0]
    dtypes = {point.workload.dtype for point in points}
    reach = [*(point.intensity for point in points), *ridges(roofs, dtypes)] or [1.0]
    left, right = min(reach) / 4, max(reach) * 4
    lines = roof_lines(roofs, dtypes, left, right)
    heights = [*(point.flop_rate for point in points), *(top for roof in lines for top in roof["y"])]
    area = PlotArea(
        width=_WIDTH, height=_HEIGHT, across=Scale(low=left, high=right, is_log=True),
        up=Scale(low=min(heights) / 2, high=max(heights) * 2, is_log=True),
    )  # fmt: skip
    title = f"Roofline of {machine.name}"
    marks = [_mark(point, area, paint) for point in sorted(points, key=lambda point: not point.series.is_baseline)]
    return drawing(
        _WIDTH, _HEIGHT, title,
        element("rect", width=_WIDTH, height=_HEIGHT, rx=6, fill=paint[SURFACE]),
        label(title, LEFT, 22, paint[INK], size=14, font_weight="bold"),
        label("measured roofs solid, datasheet’s thin; baselines hollow", _WIDTH - RIGHT, 22, paint[MUTED],
              anchor="end"),
        _key(points, paint),
        area.rows(lambda tick: quantity(tick, "FLOP/s"), grid=paint[GRID], ink=paint[MUTED]),
        area.columns([(tick, f"{tick:g} FLOP/B") for tick in area.across.ticks()], ink=paint[MUTED]),
        *(
            area.line(list(zip(roof["x"], roof["y"], strict=True)), stroke=paint[roof["line"]["color"]],
                      stroke_width=roof["line"]["width"])
            for roof in lines
        ),
        *marks,
        description=f"{len(points)} workloads and implementations by arithmetic intensity and throughput",
    )  # fmt: skip


def _mark(point: RooflinePoint, area: PlotArea, paint: Mapping[str, str]) -> str:
    colour = paint[look(point.implementation).colour]
    fill = {"fill": "none", "stroke": colour, "stroke_width": 1.4} if point.series.is_baseline else {"fill": colour}
    return element("circle", cx=area.x(point.intensity), cy=area.y(point.flop_rate), r=3.6, **fill)


def _key(points: Sequence[RooflinePoint], paint: Mapping[str, str]) -> str:
    """Which colour is whose: ours first, as many as there is room for."""
    found = sorted({(p.series.is_baseline, p.implementation != "warpwatch", p.implementation) for p in points})
    x, parts = LEFT, []
    for is_rival, _, name in found[:_KEY_ENTRIES]:
        theirs = look(name)
        if x + 14 + text_width(theirs.label, 11) > _WIDTH - RIGHT - 80:
            break
        ring = {"fill": "none", "stroke": paint[theirs.colour]} if is_rival else {"fill": paint[theirs.colour]}
        parts.append(element("circle", cx=x + 5, cy=39, r=4, **ring) + label(theirs.label, x + 14, 43, paint[MUTED]))
        x += 14 + text_width(theirs.label, 11) + 16
    if len(parts) < len(found):
        parts.append(label(f"and {len(found) - len(parts)} more", x, 43, paint[MUTED]))
    return "".join(parts)

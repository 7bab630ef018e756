"""Still pictures for READMEs: a series' history and a machine's roofline as SVG."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ...model.changepoint import SeriesChange
from ...model.history import History
from ...model.machine import Roofline, RooflinePoint
from ...model.quantities import change, quantity
from ...model.series import Commit
from ...model.verdict import ChangeKind
from ...statistics.levels import levels
from .history_view import by_commit
from .palette import BETTER, GRID, INK, MUTED, SURFACE, WORSE, look
from .roofs import ridges, roof_lines, roofs_of
from .svg import Theme, colours, drawing, element, text_width, words

# The frame of a still picture: axes with round ticks, and where a value stands in it.

LEFT, TOP, BOTTOM, RIGHT = 88.0, 54.0, 30.0, 16.0  # room for "100 GFLOP/s", for heading and key, for days
_SMALL = 11


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """One axis: the values at its ends, and whether it grows by factors."""

    low: float
    high: float
    is_log: bool = False

    def share(self, value: float) -> float:
        """How far along the axis a value stands: 0 is its beginning, 1 its end."""
        if self.is_log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def ticks(self) -> list[float]:
        """Powers of ten, or steps of 1, 2 or 5 times a power of ten, about five of them."""
        if self.is_log:
            first, last = math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.high) + 1e-9)
            return [10.0**power for power in range(first, last + 1)]
        rough = (self.high - self.low) / 5
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(size * power for size in (1, 2, 5, 10) if size * power >= rough * 0.999)
        first = math.ceil(self.low / step - 1e-9)
        count = math.floor(self.high / step + 1e-9) - first + 1
        return [(first + number) * step for number in range(count)]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlotArea:
    """A plot in a picture of that size."""

    width: float
    height: float
    across: Scale
    up: Scale

    def x(self, value: float) -> float:
        return round(LEFT + self.across.share(value) * (self.width - LEFT - RIGHT), 1)

    def y(self, value: float) -> float:
        return round(self.height - BOTTOM - self.up.share(value) * (self.height - TOP - BOTTOM), 1)

    def line(self, places: Sequence[tuple[float, float]], **attributes: object) -> str:
        """A line through values."""
        points = " ".join(f"{self.x(x):g},{self.y(y):g}" for x, y in places)
        return element("polyline", points=points, fill="none", **attributes)

    def rows(self, told: Callable[[float], str], *, grid: str, ink: str) -> str:
        """The vertical axis: a faint line and a label at each tick."""
        return "".join(
            element("line", x1=LEFT, x2=self.width - RIGHT, y1=self.y(tick), y2=self.y(tick), stroke=grid)
            + label(told(tick), LEFT - 6, self.y(tick) + 4, ink, anchor="end")
            for tick in self.up.ticks()
        )

    def columns(self, ticks: Sequence[tuple[float, str]], *, ink: str) -> str:
        """The horizontal axis: labels under the plot; the first and the last do not stand out of the picture."""
        last = len(ticks) - 1
        anchors = ["start" if n == 0 else "end" if n == last else "middle" for n in range(len(ticks))]
        return "".join(
            label(told, self.x(place), self.height - BOTTOM + 17, ink, anchor=anchor if last else "middle")
            for (place, told), anchor in zip(ticks, anchors, strict=True)
        )


def label(
    text: str, x: float, y: float, ink: str, *, anchor: str = "start", size: float = _SMALL, **more: object
) -> str:
    """A line of words."""
    return element("text", words(text), x=x, y=y, fill=ink, text_anchor=anchor, font_size=size, **more)


_WIDTH, _HEIGHT = 800.0, 320.0
_MOST_POINTS = 700  # about one a pixel: of more, the lowest and highest of neighbours are drawn
_FAR = 3.0  # a rival this many times away would flatten our own line
_RIVALS = 3
_ROWS_OF_WORDS = 4
_DASHES = {"dash": "6 4", "longdash": "10 4", "dot": "2 3", "dashdot": "8 3 2 3", "solid": None}
_Line = Sequence[tuple[Commit, float]]


def history_image(history: History, theme: Theme) -> str:
    """The picture as an SVG file; an empty history is one that says so."""
    paint, series, own = colours(theme), history.series, by_commit(history.points)
    name = " · ".join(
        filter(None, (series.workload or series.title, _name(series.implementation), series.metric.label))
    )
    title = f"{name} on {series.machine}"
    frame = element("rect", width=_WIDTH, height=_HEIGHT, rx=6, fill=paint[SURFACE])
    heading = label(_cut(title, 14), LEFT, 22, paint[INK], size=14, font_weight="bold")
    if not own:
        empty = label("No value has been recorded yet.", LEFT, _HEIGHT / 2, paint[MUTED], size=13)
        return drawing(_WIDTH, _HEIGHT, title, frame, heading, empty)
    middle = sorted(value for _, value in own)[len(own) // 2]
    rivals = [
        (other.series.implementation or "", line)
        for other in history.others
        if other.series.is_baseline and (line := by_commit(other.points)) and _is_near(line[-1][1], middle)
    ][:_RIVALS]
    commits = sorted({commit for line in (own, *(line for _, line in rivals)) for commit, _ in line}, key=_order)
    place = {commit.hash: float(number) for number, commit in enumerate(commits)}
    area = _area([value for line in (own, *(line for _, line in rivals)) for _, value in line], len(commits))
    unit = series.metric.unit
    steps = [each for each in history.changes if each.kind is ChangeKind.STEP]
    ours = look(series.implementation)
    drawn = [
        *(
            area.line(
                _thinned(line, place),
                stroke=paint[look(rival).colour],
                stroke_width=1.4,
                stroke_dasharray=_DASHES.get(look(rival).dash),
            )
            for rival, line in rivals
        ),
        area.line(_thinned(own, place), stroke=paint[ours.colour], stroke_width=1.6, stroke_linejoin="round"),
        *(
            area.line(
                [(place[each.first.hash], each.value), (place[each.last.hash], each.value)],
                stroke=paint[INK],
                stroke_width=2,
            )
            for each in (levels(history.points, history.changes, is_exact=series.metric.is_exact) if steps else ())
        ),
        *_steps(steps, area, place, paint, is_ours=series.is_watched),
    ]
    newest = f"{quantity(own[-1][1], unit)} at {own[-1][0].hash[:8]}"
    told = f"{len(own)} commits, newest value {newest}" + "".join(
        f"; {change(each.magnitude, each.before)} at {each.commit.hash[:8]}" for each in steps[-5:]
    )
    return drawing(
        _WIDTH,
        _HEIGHT,
        title,
        frame,
        heading,
        label(newest, _WIDTH - RIGHT, 22, paint[MUTED], anchor="end", size=12),
        _key(
            [
                (ours.label if series.implementation else series.metric.label, paint[ours.colour], None),
                *((look(name).label, paint[look(name).colour], _DASHES.get(look(name).dash)) for name, _ in rivals),
            ],
            paint[MUTED],
        ),
        area.rows(lambda tick: quantity(tick, unit), grid=paint[GRID], ink=paint[MUTED]),
        area.columns(_days(commits), ink=paint[MUTED]),
        *drawn,
        description=told,
    )


def _name(implementation: str | None) -> str | None:
    return look(implementation).label if implementation else None


def _order(commit: Commit) -> tuple[int, float]:
    return commit.position, commit.date.timestamp()


def _is_near(value: float, middle: float) -> bool:
    return middle > 0 and value > 0 and 1 / _FAR < value / middle < _FAR


def _area(values: Sequence[float], commits: int) -> PlotArea:
    """At least 6 % high around the values: noise of a thousandth must not fill the picture."""
    low, high = min(values), max(values)
    middle = (low + high) / 2
    half = max((high - low) * 0.56, abs(middle) * 0.03) or 1.0
    across = Scale(low=-0.5, high=max(commits - 0.5, 0.5))
    return PlotArea(width=_WIDTH, height=_HEIGHT, across=across, up=Scale(low=middle - half, high=middle + half))


def _thinned(line: _Line, place: dict[str, float]) -> list[tuple[float, float]]:
    places = [(place[commit.hash], value) for commit, value in line]
    if len(places) <= _MOST_POINTS:
        return places
    size = math.ceil(len(places) / (_MOST_POINTS / 2))
    kept = []
    for start in range(0, len(places), size):
        some = places[start : start + size]
        kept += sorted({min(some, key=lambda each: each[1]), max(some, key=lambda each: each[1])})
    return kept


def _steps(
    steps: Sequence[SeriesChange], area: PlotArea, place: dict[str, float], paint: Mapping[str, str], *, is_ours: bool
) -> list[str]:
    """A line before the first commit of each new level, with how much: a sign beside the colour says which way."""
    drawn = []
    ends: list[float] = []  # of the words in each row, the upper first
    for step in steps:
        x = area.x(place[step.commit.hash] - 0.5)
        ink = paint[MUTED if not is_ours or step.below_limit is not None else WORSE if step.is_worse else BETTER]
        word = f"{'▲' if step.magnitude > 0 else '▼'} {change(step.magnitude, step.before)}"
        width = text_width(word, 11) + 10
        start = x + 5 if x + width < _WIDTH else x - width
        row = next((row for row, end in enumerate(ends) if end < start), len(ends))
        ends[row : row + 1] = [start + width]
        drawn.append(element("line", x1=x, x2=x, y1=TOP, y2=_HEIGHT - BOTTOM, stroke=ink, stroke_dasharray="3 3"))
        if row < _ROWS_OF_WORDS:
            drawn.append(label(word, start, TOP + 10 + 14 * row, ink))
    return drawn


def _key(lines: Sequence[tuple[str, str, str | None]], ink: str) -> str:
    """Which line is whose."""
    x, parts = LEFT, []
    for name, colour, dash in lines:
        parts.append(
            element("line", x1=x, x2=x + 20, y1=39, y2=39, stroke=colour, stroke_width=2, stroke_dasharray=dash)
            + label(name, x + 25, 43, ink)
        )
        x += 25 + text_width(name, 11) + 18
    return "".join(parts)


def _days(commits: Sequence[Commit]) -> list[tuple[float, str]]:
    """The day of the first, the last and some commits between."""
    last = len(commits) - 1
    chosen = sorted({round(last * part / 4) for part in range(5)})
    told = [(float(number), f"{commits[number].date:%Y-%m-%d}") for number in chosen]
    return [told[0], *(each for before, each in pairwise(told) if each[1] != before[1])]


def _cut(text: str, size: float) -> str:
    """As much as the heading has room for beside the newest value."""
    room = int((_WIDTH - LEFT - 200) / (0.62 * size))
    return text if len(text) <= room else text[: room - 1] + "…"


# A machine's roofline as a picture for a README: its roofs, each workload and implementation under them.

_ROOFLINE_WIDTH, _ROOFLINE_HEIGHT = 800.0, 460.0
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
        width=_ROOFLINE_WIDTH,
        height=_ROOFLINE_HEIGHT,
        across=Scale(low=left, high=right, is_log=True),
        up=Scale(low=min(heights) / 2, high=max(heights) * 2, is_log=True),
    )
    title = f"Roofline of {machine.name}"
    marks = [_mark(point, area, paint) for point in sorted(points, key=lambda point: not point.series.is_baseline)]
    return drawing(
        _ROOFLINE_WIDTH,
        _ROOFLINE_HEIGHT,
        title,
        element("rect", width=_ROOFLINE_WIDTH, height=_ROOFLINE_HEIGHT, rx=6, fill=paint[SURFACE]),
        label(title, LEFT, 22, paint[INK], size=14, font_weight="bold"),
        label(
            "measured roofs solid, datasheet’s thin; baselines hollow",
            _ROOFLINE_WIDTH - RIGHT,
            22,
            paint[MUTED],
            anchor="end",
        ),
        _roofline_key(points, paint),
        area.rows(lambda tick: quantity(tick, "FLOP/s"), grid=paint[GRID], ink=paint[MUTED]),
        area.columns([(tick, f"{tick:g} FLOP/B") for tick in area.across.ticks()], ink=paint[MUTED]),
        *(
            area.line(
                list(zip(roof["x"], roof["y"], strict=True)),
                stroke=paint[roof["line"]["color"]],
                stroke_width=roof["line"]["width"],
            )
            for roof in lines
        ),
        *marks,
        description=f"{len(points)} workloads and implementations by arithmetic intensity and throughput",
    )


def _mark(point: RooflinePoint, area: PlotArea, paint: Mapping[str, str]) -> str:
    colour = paint[look(point.implementation).colour]
    fill = {"fill": "none", "stroke": colour, "stroke_width": 1.4} if point.series.is_baseline else {"fill": colour}
    return element("circle", cx=area.x(point.intensity), cy=area.y(point.flop_rate), r=3.6, **fill)


def _roofline_key(points: Sequence[RooflinePoint], paint: Mapping[str, str]) -> str:
    """Which colour is whose: ours first, as many as there is room for."""
    found = sorted({(p.series.is_baseline, p.implementation != "warpwatch", p.implementation) for p in points})
    x, parts = LEFT, []
    for is_rival, _, name in found[:_KEY_ENTRIES]:
        theirs = look(name)
        if x + 14 + text_width(theirs.label, 11) > _ROOFLINE_WIDTH - RIGHT - 80:
            break
        ring = {"fill": "none", "stroke": paint[theirs.colour]} if is_rival else {"fill": paint[theirs.colour]}
        parts.append(element("circle", cx=x + 5, cy=39, r=4, **ring) + label(theirs.label, x + 14, 43, paint[MUTED]))
        x += 14 + text_width(theirs.label, 11) + 16
    if len(parts) < len(found):
        parts.append(label(f"and {len(found) - len(parts)} more", x, 43, paint[MUTED]))
    return "".join(parts)

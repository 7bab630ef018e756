"""A series' history as a picture for a README: its line, levels and steps, and rivals near it. No script, no font."""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

from warpwatch.dashboard.figures.history_view import by_commit
from warpwatch.dashboard.figures.palette import BETTER, GRID, INK, MUTED, SURFACE, WORSE, look
from warpwatch.dashboard.figures.plot_area import BOTTOM, LEFT, RIGHT, TOP, PlotArea, Scale, label
from warpwatch.dashboard.figures.svg import Theme, colours, drawing, element, text_width
from warpwatch.dashboard.levels import levels
from warpwatch.dashboard.quantities import change, quantity
from warpwatch.dashboard.statistics.change_kind import ChangeKind
from warpwatch.dashboard.store.records import Commit, History, SeriesChange

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
            area.line(_thinned(line, place), stroke=paint[look(rival).colour], stroke_width=1.4,
                      stroke_dasharray=_DASHES.get(look(rival).dash))
            for rival, line in rivals
        ),
        area.line(_thinned(own, place), stroke=paint[ours.colour], stroke_width=1.6, stroke_linejoin="round"),
        *(
            area.line([(place[each.first.hash], each.value), (place[each.last.hash], each.value)], stroke=paint[INK],
                      stroke_width=2)
            for each in (levels(history.points, history.changes, is_exact=series.metric.is_exact) if steps else ())
        ),
        *_steps(steps, area, place, paint, is_ours=series.is_watched),
    ]  # fmt: skip
    newest = f"{quantity(own[-1][1], unit)} at {own[-1][0].hash[:8]}"
    told = f"{len(own)} commits, newest value {newest}" + "".join(
        f"; {change(each.magnitude, each.before)} at {each.commit.hash[:8]}" for each in steps[-5:]
    )
    return drawing(
        _WIDTH, _HEIGHT, title, frame, heading,
        label(newest, _WIDTH - RIGHT, 22, paint[MUTED], anchor="end", size=12),
        _key([(ours.label if series.implementation else series.metric.label, paint[ours.colour], None),
              *((look(name).label, paint[look(name).colour], _DASHES.get(look(name).dash)) for name, _ in rivals)],
             paint[MUTED]),
        area.rows(lambda tick: quantity(tick, unit), grid=paint[GRID], ink=paint[MUTED]),
        area.columns(_days(commits), ink=paint[MUTED]),
        *drawn,
        description=told,
    )  # fmt: skip


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
) -> list[str]:  # fmt: skip
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

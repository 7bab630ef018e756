"""A series over commits: values and their spread, levels, changepoints, rivals and twins, and what is no number."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from statistics import median
from typing import Any

from warpwatch.dashboard import quantities
from warpwatch.dashboard.figures.history_machine import (
    canary_axis,
    canary_lines,
    card_changes,
    card_labels,
    card_lines,
)
from warpwatch.dashboard.figures.history_view import Frame, HistoryView, by_commit, x_axis
from warpwatch.dashboard.figures.hover import change_text, episode_text, no_number_text, point_text
from warpwatch.dashboard.figures.layout import axis, layout, plain
from warpwatch.dashboard.figures.palette import BETTER, INK, MUTED, SURFACE, WORSE, look
from warpwatch.dashboard.statistics.change_kind import ChangeKind
from warpwatch.dashboard.store.records import Commit, History, Point, SeriesChange, Status

_FAR = 4.0  # another implementation this many times away starts hidden, so that our own history stays readable
_LABELLED_CHANGES = 8  # the largest get their magnitude written on the figure; all have it in the hover


def history_figure(history: History, view: HistoryView) -> dict[str, Any]:
    """Plotly's JSON for a series' page. `layout.meta.commits` lists what the horizontal axis shows, oldest first."""
    lines = (history.points, *(other.points for other in history.others))
    values = next(filter(None, ([p.value for p in points if p.value is not None] for points in lines)), [])
    typical = median(values) if values else 1.0
    factor, unit = quantities.axis_unit(typical, history.series.metric.unit)
    frame = Frame(_commits(history), view.spacing, factor)
    no_number = [point for point in history.points if point.status is not Status.OK]
    canaries = canary_lines(history.canaries, frame)
    cards = card_changes(history.points)
    is_ours = history.series.is_watched
    strip, below, bottom = _domains(has_no_numbers=bool(no_number), has_canaries=bool(canaries))
    data = [
        *_band(history.points, frame),
        *_own_values(history, frame),
        *_levels(history, frame),
        *_others(history, frame, typical),
        *_changes(history, frame),
        *_episodes(history, frame),
        *_no_numbers(no_number, frame),
        *canaries,
    ]
    label = history.series.metric.label
    name = f"{label} ({unit})" if unit not in {"", "unit"} else label
    # Noise of a thousandth must not fill the height: the axis spans at least 6 % of the typical value.
    least = {"autorangeoptions": {"include": [typical * factor * 0.97, typical * factor * 1.03]}} if typical else {}
    return {
        "data": data,
        "layout": layout(
            hovermode="closest",
            # Under the lowest strip where there is one; plotly knows no yaxis if all its traces are empty.
            xaxis={**x_axis(frame, view), "anchor": "y2" if no_number else "y3" if canaries else "y"},
            yaxis=axis(
                plain(name),
                type=view.scale.value,
                domain=[bottom, 1],
                exponentformat="SI",
                **(least if values else {"range": [0, 1], "showticklabels": False}),
            ),
            **({"yaxis2": _strip_axis(strip)} if no_number else {}),
            **({"yaxis3": canary_axis(below)} if canaries else {}),
            shapes=[*card_lines(cards, frame), *(_change_line(change, frame, is_ours) for change in history.changes)],
            annotations=[*card_labels(cards, frame, bottom), *_change_labels(history.changes, frame, is_ours)],
            meta={
                "commits": [commit.hash[:8] for commit in frame.commits],
                "dates": [commit.date.isoformat() for commit in frame.commits],
                "spacing": view.spacing.value,
            },
        ),
    }


def _domains(*, has_no_numbers: bool, has_canaries: bool) -> tuple[tuple[float, float], tuple[float, float], float]:
    """From below, as shares of the height: the strip of what is no number, that of the canaries, the plot's foot."""
    strip = (0.0, 0.05 if has_no_numbers else 0.0)
    foot = 0.1 if has_no_numbers else 0.0
    canaries = (foot, foot + 0.17 if has_canaries else foot)
    return strip, canaries, foot + 0.23 if has_canaries else foot


def _commits(history: History) -> tuple[Commit, ...]:
    lines: Iterable[Sequence[Point]] = (history.points, *(other.points for other in history.others))
    seen = {point.commit.hash: point.commit for points in lines for point in points}
    return tuple(sorted(seen.values(), key=lambda commit: (commit.position, commit.date)))


def _band(points: Sequence[Point], frame: Frame) -> list[dict[str, Any]]:
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


def _own_values(history: History, frame: Frame) -> list[dict[str, Any]]:
    """A point for each run. The line goes through commits' medians, which are the points where each has one run."""
    own = look(history.series.implementation)
    numbers = [point for point in history.points if point.status is Status.OK]
    line = by_commit(numbers)
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


def _levels(history: History, frame: Frame) -> list[dict[str, Any]]:
    """Each segment's level as a line from its first to its last commit, card by card."""
    line = by_commit(history.points)
    if not history.changes or not line:
        return []
    edges = sorted(change.index for change in history.changes)
    exact = history.series.metric.is_exact
    card_of = {point.commit.hash: None if exact else point.card for point in history.points}
    segments: dict[tuple[int, str | None], list[tuple[Commit, float]]] = {}
    for place, (commit, value) in enumerate(line):
        segments.setdefault((bisect_right(edges, place), card_of[commit.hash]), []).append((commit, value))
    x: list[str | None] = []
    y: list[float | None] = []
    for segment in segments.values():
        level = median(value for _, value in segment)
        x += [frame.x(segment[0][0]), frame.x(segment[-1][0]), None]
        y += [frame.y(level), frame.y(level), None]
    return [{"name": "level", "mode": "lines", "x": x, "y": y, "line": {"color": INK, "width": 2}, "hoverinfo": "skip"}]


def _others(history: History, frame: Frame, typical: float) -> list[dict[str, Any]]:
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


def _changes(history: History, frame: Frame) -> list[dict[str, Any]]:
    """A triangle at each changepoint, upwards where the value went up; worse and better are two legend entries.

    What no commit of ours changes neither regresses nor improves.
    """
    traces = []
    steps = [change for change in history.changes if change.kind is ChangeKind.STEP]
    kinds = [("regression", WORSE, [change for change in steps if change.is_worse]),
             ("improvement", BETTER, [change for change in steps if not change.is_worse]),
             ("the machine moved", INK, [change for change in history.changes if change not in steps])]  # fmt: skip
    if not history.series.is_watched:
        kinds = [("the machine moved" if history.series.is_control else "change", INK, list(history.changes))]
    for name, colour, changes in kinds:
        if changes:
            traces.append(
                {
                    "name": name, "mode": "markers",
                    "x": [frame.x(change.commit) for change in changes],
                    "y": [frame.y(change.after) for change in changes],
                    "marker": {"color": colour, "size": 12, "line": {"width": 1, "color": SURFACE},
                               "symbol": ["triangle-up" if c.magnitude > 0 else "triangle-down" for c in changes]},
                    "text": [change_text(change, history.series.metric, name) for change in changes],
                    "hovertemplate": "%{text}<extra></extra>",
                    "customdata": [change.commit.hash for change in changes],
                    "cliponaxis": False,
                }
            )  # fmt: skip
    return traces


def _change_labels(changes: Sequence[SeriesChange], frame: Frame, is_ours: bool) -> list[dict[str, Any]]:
    """The magnitudes of the largest changes, at the upper end of their lines, where no value is in the way."""
    largest = sorted(changes, key=lambda change: -abs(change.magnitude))[:_LABELLED_CHANGES]
    return [
        {
            "x": frame.place(change.commit), "xref": "x", "y": 1, "yref": "paper", "xanchor": "left", "yanchor": "top",
            "text": quantities.change(change.magnitude, change.before), "showarrow": False, "xshift": 2,
            "bgcolor": SURFACE, "borderpad": 1, "font": {"color": _colour(change, is_ours), "size": 11},
        }
        for change in largest
    ]  # fmt: skip


def _episodes(history: History, frame: Frame) -> list[dict[str, Any]]:
    """What no commit is accused of: a diamond where it began, or a drift ended, that tells more when pointed at."""
    if not history.episodes:
        return []
    ends = [each.range_end if each.kind is ChangeKind.DRIFT else each.commit for each in history.episodes]
    return [
        {
            "name": "no commit’s", "mode": "markers",
            "x": [frame.x(commit) for commit in ends],
            "y": [frame.y(episode.after) for episode in history.episodes],
            "marker": {"color": MUTED, "size": 11, "symbol": "diamond-open", "line": {"width": 1.5}},
            "text": [episode_text(episode, history.series.metric) for episode in history.episodes],
            "hovertemplate": "%{text}<extra></extra>",
            "customdata": [commit.hash for commit in ends],
        }
    ]  # fmt: skip


def _no_numbers(points: Sequence[Point], frame: Frame) -> list[dict[str, Any]]:
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


def _colour(change: SeriesChange, is_ours: bool) -> str:
    is_a_commits = is_ours and change.kind is ChangeKind.STEP
    return (WORSE if change.is_worse else BETTER) if is_a_commits else INK


def _change_line(change: SeriesChange, frame: Frame, is_ours: bool) -> dict[str, Any]:
    x = frame.place(change.commit)
    colour = _colour(change, is_ours)
    return {
        "type": "line", "xref": "x", "yref": "paper", "x0": x, "x1": x, "y0": 0, "y1": 1, "layer": "below",
        "line": {"color": colour, "width": 1, "dash": "dot"},
    }  # fmt: skip


def _strip_axis(domain: tuple[float, float]) -> dict[str, Any]:
    """A low strip under the plot for commits that have a reason instead of a number."""
    return axis("", domain=list(domain), range=[-1, 1], showticklabels=False, showgrid=False, fixedrange=True)

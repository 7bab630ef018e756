"""What the machine did beside a history: its canaries in a strip below, relative, and where another card came in."""

from collections.abc import Sequence
from statistics import median
from typing import Any

from warpwatch.dashboard import quantities
from warpwatch.dashboard.figures.history_view import Frame, by_commit
from warpwatch.dashboard.figures.hover import canary_text
from warpwatch.dashboard.figures.layout import axis, plain
from warpwatch.dashboard.figures.palette import GREY, GRID, MUTED, SKY, SURFACE
from warpwatch.dashboard.naming import canary_name, card_name
from warpwatch.dashboard.store.records import Commit, OtherHistory, Point, Status

_LOOKS = ((GREY, "solid", "square"), (SKY, "dash", "cross"))
_NEAR_EDGE = 0.65  # share of the commits
_LEAST_SPAN = 1.0  # per cent either way, so that noise does not fill the strip


def canary_lines(canaries: Sequence[OtherHistory], frame: Frame) -> list[dict[str, Any]]:
    """Each canary's commits in per cent of its own median: a flat line is a machine that stood still."""
    shown = {commit.hash for commit in frame.commits}
    traces = []
    for number, canary in enumerate(canaries):
        line = [(commit, value) for commit, value in by_commit(canary.points) if commit.hash in shown]
        if not line:
            continue
        middle = median(value for _, value in line)
        colour, dash, symbol = _LOOKS[number % len(_LOOKS)]
        name = canary_name(canary.series.workload or "")
        traces.append(
            {
                "name": plain(f"canary {name}"), "mode": "lines+markers", "yaxis": "y3",
                "x": [frame.x(commit) for commit, _ in line],
                "y": [100 * (value / middle - 1) for _, value in line],
                "line": {"color": colour, "width": 1.2, "dash": dash},
                "marker": {"color": colour, "size": 4, "symbol": symbol},
                "text": [canary_text(name, value, value / middle - 1, commit) for commit, value in line],
                "hovertemplate": "%{text}<extra></extra>",
                "customdata": [commit.hash for commit, _ in line],
            }
        )  # fmt: skip
    return traces


def canary_axis(domain: tuple[float, float]) -> dict[str, Any]:
    """The strip's axis in per cent, never narrower than what a machine scatters anyway."""
    return axis(
        "",
        domain=list(domain),
        autorangeoptions={"include": [-_LEAST_SPAN, _LEAST_SPAN]},
        nticks=3,
        ticksuffix=" %",
        fixedrange=True,
        zeroline=True,
        zerolinewidth=1,
        zerolinecolor=GRID,
    )


def card_changes(points: Sequence[Point]) -> list[tuple[Commit, str]]:
    """The commits from which on another physical card measured, and that card."""
    found: list[tuple[Commit, str]] = []
    last: set[str] = set()
    commits: dict[str, tuple[Commit, set[str]]] = {}
    for point in points:
        if point.status is Status.OK and point.card is not None:
            commits.setdefault(point.commit.hash, (point.commit, set()))[1].add(point.card)
    for commit, cards in commits.values():
        if last and not cards & last:
            found.append((commit, sorted(cards)[0]))
        last = cards
    return found


def card_lines(changes: Sequence[tuple[Commit, str]], frame: Frame) -> list[dict[str, Any]]:
    """An upright line where another card came in."""
    return [
        {
            "type": "line", "xref": "x", "yref": "paper", "x0": frame.place(commit), "x1": frame.place(commit), "y0": 0,
            "y1": 1, "layer": "above", "line": {"color": MUTED, "width": 1, "dash": "dash"},
        }
        for commit, _ in changes
    ]  # fmt: skip


def card_labels(changes: Sequence[tuple[Commit, str]], frame: Frame, bottom: float) -> list[dict[str, Any]]:
    """Which card, at the foot of the plot, or under it where a strip is: changes of level have theirs at its top.

    Near the right edge the words stand on the left, as plotly would widen the axis for them.
    """
    place = {commit.hash: number / len(frame.commits) for number, commit in enumerate(frame.commits)}
    return [
        {
            "x": frame.place(commit), "xref": "x", "xanchor": "right" if place[commit.hash] > _NEAR_EDGE else "left",
            "y": bottom, "yref": "paper", "yanchor": "top" if bottom else "bottom",
            "text": plain(f"card {card_name(card)}"), "showarrow": False,
            "xshift": -2 if place[commit.hash] > _NEAR_EDGE else 2, "bgcolor": SURFACE, "borderpad": 1,
            "font": {"color": MUTED, "size": 11},
        }
        for commit, card in changes
    ]  # fmt: skip


def canary_summary(canaries: Sequence[OtherHistory]) -> str:
    """The strip in words, for who cannot see it: how far each canary's commits reach from its median."""
    told = []
    for canary in canaries:
        values = [value for _, value in by_commit(canary.points)]
        if values:
            low, high = (quantities.change(edge(values) / median(values) - 1) for edge in (min, max))
            told.append(f"canary {canary_name(canary.series.workload or '')} from {low} to {high}")
    return "; ".join(told)

"""What the machine did beside a history: its canaries in a strip below, relative to themselves."""

from collections.abc import Sequence
from statistics import median
from typing import Any

from warpwatch.dashboard import quantities
from warpwatch.dashboard.figures.history_view import Frame, by_commit, runs_of
from warpwatch.dashboard.figures.hover import canary_text
from warpwatch.dashboard.figures.layout import axis, plain
from warpwatch.dashboard.figures.palette import GREY, GRID, SKY
from warpwatch.dashboard.naming import canary_name
from warpwatch.dashboard.store.records import OtherHistory

_LOOKS = ((GREY, "solid", "square"), (SKY, "dash", "cross"))
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
                "text": [canary_text(name, value, value / middle - 1, commit, short=frame.is_long)
                         for commit, value in line],
                "hovertemplate": "%{text}<extra></extra>",
                "customdata": runs_of(canary.points, line),
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


def canary_summary(canaries: Sequence[OtherHistory]) -> str:
    """The strip in words, for who cannot see it: how far each canary's commits reach from its median."""
    told = []
    for canary in canaries:
        values = [value for _, value in by_commit(canary.points)]
        if values:
            low, high = (quantities.change(edge(values) / median(values) - 1) for edge in (min, max))
            told.append(f"canary {canary_name(canary.series.workload or '')} from {low} to {high}")
    return "; ".join(told)

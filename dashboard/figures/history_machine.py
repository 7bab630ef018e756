"""What the machine did beside a history: its canaries in a strip below, relative to themselves."""

import math
from collections.abc import Sequence
from statistics import median
from typing import Any

from warpwatch.dashboard import quantities
from warpwatch.dashboard.figures.history_view import Frame, by_commit, runs_of
from warpwatch.dashboard.figures.hover import canary_text
from warpwatch.dashboard.figures.layout import axis, plain
from warpwatch.dashboard.figures.palette import CANARIES, GRID
from warpwatch.dashboard.naming import canary_name
from warpwatch.dashboard.store.records import OtherHistory

_ENDS = (1, 2, 5, 10, 20, 50)  # of the axis, in per cent either way; beyond the last, the farthest value


def canary_lines(canaries: Sequence[OtherHistory], frame: Frame) -> list[dict[str, Any]]:
    """Each canary's commits in per cent of its own median: a flat line is a machine that stood still."""
    shown = {commit.hash for commit in frame.commits}
    traces = []
    with_numbers = [canary for canary in canaries if by_commit(canary.points)]  # another machine's kind has none here
    for number, canary in enumerate(with_numbers):
        line = [(commit, value) for commit, value in by_commit(canary.points) if commit.hash in shown]
        if not line:
            continue
        middle = median(value for _, value in line)
        colour, dash, symbol = CANARIES[number % len(CANARIES)]
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


def canary_axis(lines: Sequence[dict[str, Any]], domain: tuple[float, float]) -> dict[str, Any]:
    """The strip's axis in per cent: its middle and both ends are written, so that its scale is plain.

    It is never narrower than what a machine scatters anyway.
    """
    farthest = round(max(abs(value) for line in lines for value in line["y"]), 3)
    end = next((each for each in _ENDS if each >= farthest), math.ceil(farthest))
    return axis(
        "",
        domain=list(domain),
        range=[-1.15 * end, 1.15 * end],
        tickvals=[-end, 0, end],
        ticktext=[f"−{end:g} %", "0 %", f"+{end:g} %"],
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

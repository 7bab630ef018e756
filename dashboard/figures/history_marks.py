"""What is marked at commits, in a strip below the plot: releases, notes, and where the machine became another."""

import re
from collections.abc import Sequence
from typing import Any

from warpwatch.dashboard.figures.history_view import Frame
from warpwatch.dashboard.figures.hover import mark_text
from warpwatch.dashboard.figures.layout import axis, plain
from warpwatch.dashboard.figures.palette import INK, MUTED, SURFACE
from warpwatch.dashboard.figures.panes import Domain
from warpwatch.dashboard.store.shown_records import Mark, MarkKind

_LOOKS = {
    MarkKind.RELEASE: ("release", INK, "star-triangle-up"),
    MarkKind.NOTE: ("note", INK, "hexagram-open"),
    MarkKind.MACHINE: ("machine changed", MUTED, "square-open"),
}
_LONGEST = 28  # characters of a mark's label
_MOST_LINES = 40
_CARD = re.compile(r"^card (GPU-[0-9a-f]{4})[0-9a-f]*")


def mark_traces(marks: Sequence[Mark], frame: Frame) -> list[dict[str, Any]]:
    """A sign for each mark, a trace for each kind."""
    traces = []
    for kind, (name, colour, symbol) in _LOOKS.items():
        mine = [mark for mark in marks if mark.kind is kind]
        if mine:
            traces.append(
                {
                    "name": name, "mode": "markers", "yaxis": "y4",
                    "x": [frame.x(mark.commit) for mark in mine], "y": [0] * len(mine),
                    "marker": {"color": colour, "size": 9, "symbol": symbol, "line": {"width": 1.5, "color": colour}},
                    "text": [mark_text(mark) for mark in mine], "hovertemplate": "%{text}<extra></extra>",
                }
            )  # fmt: skip
    return traces


def mark_axis(domain: Domain) -> dict[str, Any]:
    """The strip's axis, which has no scale."""
    return axis("", domain=list(domain), range=[-1, 1], showticklabels=False, showgrid=False, fixedrange=True)


def mark_lines(marks: Sequence[Mark], frame: Frame) -> list[dict[str, Any]]:
    """Upright lines; with very many marks their signs alone remain."""
    if len(marks) > _MOST_LINES:
        return []
    return [
        {
            "type": "line", "xref": "x", "yref": "paper", "x0": frame.x(mark.commit), "x1": frame.x(mark.commit),
            "y0": 0, "y1": 1, "layer": "below",
            "line": {"color": MUTED, "width": 1, "dash": "dash" if mark.kind is MarkKind.MACHINE else "solid"},
        }
        for mark in marks
        if mark.kind is not MarkKind.NOTE
    ]  # fmt: skip


def mark_labels(marks: Sequence[Mark], frame: Frame, domain: Domain) -> list[dict[str, Any]]:
    """The words beside the signs, releases first: where there is no room for all, series.js hides the later ones."""
    first = sorted(marks, key=lambda mark: list(_LOOKS).index(mark.kind))
    return [
        {
            "name": "mark", "x": frame.x(mark.commit), "xref": "x", "xanchor": "left",
            "y": sum(domain) / 2, "yref": "paper", "yanchor": "middle", "showarrow": False, "xshift": 7,
            "text": plain(_short(mark.text)), "bgcolor": SURFACE, "borderpad": 0,
            "font": {"color": MUTED, "size": 11},
        }
        for mark in first[:_MOST_LINES]
    ]  # fmt: skip


def _short(text: str) -> str:
    line = _CARD.sub(r"\1", text.splitlines()[0] if text else "")  # short enough for neighbours to have theirs too
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1].rstrip() + "…"

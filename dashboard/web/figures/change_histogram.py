"""How far the rows of a comparison changed: counts by size, coloured by verdict.

Rows within ±1 % are most of a suite: their bar would flatten all others, so they are only counted.
"""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from ...analysis.comparison_columns import VERDICTS, ComparisonColumns
from ...model.verdict import Verdict
from .hover import SHOW_TEXT
from .style import BETTER, GREY, WORSE, figure

FEWEST = 8  # drawn rows, below which the table is enough
_EDGES = (0.01, 0.02, 0.05, 0.1, 0.25, 0.5)  # relative; a halving counts as a doubling
_LOGS = tuple(math.log1p(edge) for edge in _EDGES)
_COLOURS = {Verdict.IMPROVED: BETTER, Verdict.REGRESSED: WORSE}
_Names = Mapping[Verdict | None, str]
_NAMES: _Names = {Verdict.IMPROVED: "improved", None: "unchanged or inconclusive", Verdict.REGRESSED: "regressed"}
_SIDE_NAMES: _Names = {Verdict.IMPROVED: "better", None: "alike or inconclusive", Verdict.REGRESSED: "worse"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeHistogram:
    """The figure, and the number of rows that changed too little to be drawn."""

    figure: go.Figure
    within: int


def change_histogram(rows: ComparisonColumns, *, is_of_commits: bool = True) -> ChangeHistogram | None:
    """Bars of the number of series by relative change; None for few of them."""
    edges = np.searchsorted(_LOGS, np.abs(rows.log_change), side="right")  # 0 within ±1 %
    has_ratio = ~np.isnan(rows.log_change)
    drawn = has_ratio & (edges > 0)
    if np.count_nonzero(drawn) < FEWEST:
        return None
    signed = np.where(rows.log_change > 0, edges, -edges)[drawn].tolist()
    verdicts = [VERDICTS[code] for code in rows.verdict[drawn].tolist()]
    counts = Counter(zip(signed, (each if each in _COLOURS else None for each in verdicts), strict=True))
    bins = [place for place in range(-len(_EDGES), len(_EDGES) + 1) if place]
    labels = [_label(each) for each in bins]
    traces = []
    for verdict, name in (_NAMES if is_of_commits else _SIDE_NAMES).items():
        values = [counts[each, verdict] for each in bins]
        if any(values):
            traces.append(
                go.Bar(
                    name=name,
                    x=labels,
                    y=values,
                    marker={"color": _COLOURS[verdict] if verdict is not None else GREY},
                    hovertemplate=SHOW_TEXT,
                    text=[f"{label}: {count} {name}" for label, count in zip(labels, values, strict=True)],
                    textposition="none",
                )
            )
    histogram = figure(
        traces,
        barmode="stack",
        bargap=0.08,
        margin={"l": 44, "r": 8, "t": 8, "b": 58},
        xaxis={"title_text": "relative change", "type": "category", "categoryarray": labels},
        yaxis={"title_text": "series", "rangemode": "tozero"},
    )
    return ChangeHistogram(figure=histogram, within=int(np.count_nonzero(has_ratio & ~drawn)))


def _label(place: int) -> str:
    sign, place = ("+" if place > 0 else "−"), abs(place)
    low = f"{sign}{100 * _EDGES[place - 1]:g}"
    return f"{low} % and more" if place == len(_EDGES) else f"{low} to {sign}{100 * _EDGES[place]:g} %"

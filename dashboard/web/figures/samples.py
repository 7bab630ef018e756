"""Small figures of two sides, base and head or a point and the one before: samples, and the commits around them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from ...model import quantities
from ...model.series import Commit, Point
from .history_view import by_commit, commit_tick
from .hover import SHOW_TEXT, commit_text
from .style import BLUE, GREY, MONOSPACE, MUTED, TRANSPARENT, figure, label, plain, vertical_line

_MOST_DOTS = 200  # of a side
_LEAST_SPREAD = 0.01  # of the values: smaller differences are not magnified to the whole axis
COMMITS = 60
_LEAST_SPAN = 0.06  # of the values: noise of a thousandth shall not fill the height
_AFTER = 12  # commits after the newer one


@dataclass(frozen=True, slots=True, kw_only=True)
class SideSamples:
    """What the samples of one side are, in the unit that they were recorded in."""

    name: str
    least: float
    q25: float
    median: float
    q75: float
    most: float
    count: int
    outside: int  # beyond the axis of the figure


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """Both sides, and the figure with a box and a dot a sample for each."""

    sides: tuple[SideSamples, ...]
    figure: go.Figure


def samples_of(sides: Sequence[tuple[str, Sequence[float]]], unit: str) -> Samples | None:
    """Named sides with their samples; None where neither has two.

    The axis holds all but the outermost hundredth either way of both sides.
    """
    known = [(name, np.asarray(samples, dtype=float)) for name, samples in sides if len(samples)]
    if not any(len(samples) > 1 for _, samples in known):
        return None
    ends = [float(end) for _, samples in known for end in np.quantile(samples, (0.01, 0.99))]
    low, high = _around(ends, _LEAST_SPREAD)
    factor, shown_unit = quantities.axis_unit(max(abs(low), abs(high)), unit)
    traces, summaries = [], []
    for place, (name, samples) in enumerate(known):
        least, q25, median, q75, most = np.quantile(samples, (0, 0.25, 0.5, 0.75, 1)).tolist()
        outside = int(np.sum((samples < low) | (samples > high)))
        summaries.append(
            SideSamples(
                name=name, least=least, q25=q25, median=median, q75=q75, most=most, count=len(samples), outside=outside
            )
        )
        colour = BLUE if place == len(known) - 1 else GREY
        dots = samples[:: -(-len(samples) // _MOST_DOTS)]
        traces.append(
            go.Box(
                name=plain(name),
                x=[(dots * factor).tolist()],
                y=[place],
                orientation="h",
                q1=[q25 * factor],
                median=[median * factor],
                q3=[q75 * factor],
                lowerfence=[q25 * factor],
                upperfence=[q75 * factor],
                boxpoints="all",
                pointpos=2.0,
                jitter=0.9,
                width=0.3,
                marker={"color": colour, "size": 5, "opacity": 0.65},
                line={"color": colour, "width": 1.5},
                hoveron="points",
                hovertemplate=f"%{{x:.4~g}} {plain(shown_unit)}<extra></extra>",
                showlegend=False,
            )
        )
    return Samples(
        sides=tuple(summaries),
        figure=figure(
            traces,
            xaxis={"title_text": plain(_shown(shown_unit)), "range": [low * factor, high * factor], "fixedrange": True},
            yaxis={"range": [len(known) - 0.3, -0.8], "visible": False, "fixedrange": True},
            margin={"l": 12, "r": 12, "t": 4, "b": 40},
            paper_bgcolor=TRANSPARENT,
        ),
    )


def recent_figure(
    histories: Sequence[tuple[str, Sequence[Point]]], chosen: Sequence[tuple[str, Commit]], unit: str
) -> go.Figure | None:
    """Named series at COMMITS commits at most, around the newest chosen one; older chosen commits are at the left.

    None without any number.
    """
    lines = [(name, dict(by_commit(points))) for name, points in histories]
    commits = sorted({commit for _, line in lines for commit in line}, key=lambda commit: commit.position)
    if not commits:
        return None
    newest = max(commit.position for _, commit in chosen)
    until = sum(commit.position <= newest for commit in commits) + _AFTER
    shown = commits[:until][-COMMITS:]
    older = [commit for _, commit in chosen if commit in commits and commit not in shown]
    shown = sorted({*older, *shown}, key=lambda commit: commit.position)
    place = {commit: number for number, commit in enumerate(shown)}
    values = [line[commit] for _, line in lines for commit in shown if commit in line]
    low, high = _around(values, _LEAST_SPAN)
    factor, shown_unit = quantities.axis_unit(max(abs(low), abs(high)), unit)
    ends = sorted({0, len(shown) - 1})
    marked = [(name, place[commit]) for name, commit in chosen if commit in place]
    return figure(
        [
            go.Scatter(
                name=plain(name),
                mode="lines+markers",
                x=[place[commit] for commit in shown if commit in line],
                y=[line[commit] * factor for commit in shown if commit in line],
                line={"color": colour, "width": 1.3},
                marker={"color": colour, "size": 5},
                hovertemplate=SHOW_TEXT,
                text=[
                    f"<b>{plain(quantities.quantity(line[commit], unit))}</b><br>{commit_text(commit)}"
                    for commit in shown
                    if commit in line
                ],
            )
            for (name, line), colour in zip(lines, (GREY, BLUE)[-len(lines) :], strict=True)
        ],
        showlegend=len(lines) > 1,
        xaxis={
            "range": [-0.5, len(shown) - 0.5],
            "tickmode": "array",
            "tickvals": ends,
            "ticktext": [commit_tick(shown[end]) for end in ends],
            "tickangle": 0,
            "tickfont": {"size": 10, "family": MONOSPACE},
            "fixedrange": True,
        },
        yaxis={"title_text": plain(_shown(shown_unit)), "range": [low * factor, high * factor], "fixedrange": True},
        shapes=[vertical_line(x, MUTED, layer="below") for _, x in marked],
        annotations=[
            label(
                plain(name),
                x,
                1 - 0.1 * number,
                xref="x",
                xanchor="right" if x > 0.8 * len(shown) else "left",
                yanchor="top",
            )
            for number, (name, x) in enumerate(marked)
        ],
        margin={"l": 52, "r": 12, "t": 24, "b": 40},
        paper_bgcolor=TRANSPARENT,
    )


def _shown(unit: str) -> str:
    return "" if unit == "unit" else unit


def _around(values: Sequence[float], least: float) -> tuple[float, float]:
    """Holds the values with a little room, and spans at least the share `least` of their size."""
    low, high = min(values), max(values)
    middle, span = (low + high) / 2, max(high - low, least * max(abs(low), abs(high))) or 1.0
    return middle - 0.54 * span, middle + 0.54 * span

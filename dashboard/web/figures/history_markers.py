"""Markers of a history: changes, episodes, releases, notes, and the machine's canaries."""

import math
import re
from collections.abc import Sequence
from statistics import median
from typing import Any

import plotly.graph_objects as go

from ...model import quantities
from ...model.changepoint import SeriesChange
from ...model.history import History, Mark, MarkKind, OtherHistory
from ...model.naming import canary_name
from ...model.verdict import ChangeKind
from ...text.labels import kind_word
from .history_view import RUN_DIGITS, Frame, by_commit, runs_of
from .hover import SHOW_TEXT, canary_text, change_text, episode_text, mark_text
from .style import BETTER, CANARIES, INK, MUTED, SURFACE, WORSE, Domain, label, plain, vertical_line

_ENDS = (1, 2, 5, 10, 20, 50)  # of the axis, per cent; beyond: the largest value


def canary_lines(canaries: Sequence[OtherHistory], frame: Frame) -> list[go.Scatter]:
    """Canaries in per cent of their median over all commits."""
    shown = {commit.hash for commit in frame.commits}
    traces = []
    with_numbers = [canary for canary in canaries if by_commit(canary.points)]  # some have no values on this machine
    for number, canary in enumerate(with_numbers):
        line = [(commit, value) for commit, value in by_commit(canary.points) if commit.hash in shown]
        if not line:
            continue
        middle = median(value for _, value in line)
        colour, dash, symbol = CANARIES[number % len(CANARIES)]
        name = canary_name(canary.series.workload or "")
        traces.append(
            go.Scatter(
                name=plain(f"canary {name}"),
                mode="lines+markers",
                yaxis="y3",
                x=[frame.x(commit) for commit, _ in line],
                y=[100 * (value / middle - 1) for _, value in line],
                line={"color": colour, "width": 1.2, "dash": dash},
                marker={"color": colour, "size": 4, "symbol": symbol},
                hovertemplate=SHOW_TEXT,
                text=[
                    canary_text(name, value, value / middle - 1, commit, short=frame.is_long) for commit, value in line
                ],
                customdata=runs_of(canary.points, line),
            )
        )
    return traces


def canary_axis(lines: Sequence[go.Scatter], domain: Domain) -> dict[str, Any]:
    """Axis of the strip in per cent, labelled at zero and both ends; at least ±1 %."""
    farthest = round(max(abs(value) for line in lines for value in line.y), 3)
    end = next((each for each in _ENDS if each >= farthest), math.ceil(farthest))
    return {
        "domain": domain,
        "range": [-1.15 * end, 1.15 * end],
        "tickvals": [-end, 0, end],
        "ticktext": [f"−{end:g} %", "0 %", f"+{end:g} %"],
        "fixedrange": True,
        "zeroline": True,
        "zerolinewidth": 1,
    }


def canary_summary(canaries: Sequence[OtherHistory]) -> str:
    """The strip as text, for screen readers: range of each canary around its median."""
    parts = []
    for canary in canaries:
        values = [value for _, value in by_commit(canary.points)]
        if values:
            low, high = (quantities.change(edge(values) / median(values) - 1) for edge in (min, max))
            parts.append(f"canary {canary_name(canary.series.workload or '')} from {low} to {high}")
    return "; ".join(parts)


_ON_COMMIT = {"xref": "x", "bgcolor": SURFACE, "borderpad": 0}  # of a label
_LABELLED = 40  # the largest ones; series.js shows those that fit


_UNATTRIBUTED = (ChangeKind.NOT_SIGNIFICANT, ChangeKind.MACHINE_STATE, ChangeKind.UNJUDGED)


def change_traces(history: History, frame: Frame) -> list[go.Scatter]:
    """A triangle at each changepoint, up if the value rose; one legend entry per kind.

    Changes of baselines and canaries neither regress nor improve.
    """
    traces = []
    run_at = _runs(history)
    measured = {commit.hash: value for commit, value in by_commit(history.points)}
    steps = [change for change in history.changes if change.kind is ChangeKind.STEP]
    counting = [change for change in steps if change.below_limit is None]
    kinds = [
        ("regression", WORSE, [change for change in counting if change.is_worse]),
        ("improvement", BETTER, [change for change in counting if not change.is_worse]),
        ("below the threshold", MUTED, [change for change in steps if change.below_limit is not None]),
        *(
            (
                kind_word(kind).lower() if kind is not ChangeKind.MACHINE_STATE else "machine drift",
                INK,
                [change for change in history.changes if change.kind is kind],
            )
            for kind in _UNATTRIBUTED
        ),
    ]
    if not history.series.is_ours:
        kinds = [("machine drift" if history.series.is_control else "change", INK, list(history.changes))]
    for name, colour, changes in kinds:
        if changes:
            traces.append(
                go.Scatter(
                    name=name,
                    mode="markers",
                    x=[frame.x(change.commit) for change in changes],
                    y=[
                        frame.y(
                            change.after if frame.transform.divisor is None else measured.get(change.commit.hash),
                            change.commit,
                        )
                        for change in changes
                    ],
                    marker={
                        "color": colour,
                        "size": 12,
                        "line": {"width": 1, "color": SURFACE},
                        "symbol": ["triangle-up" if c.magnitude > 0 else "triangle-down" for c in changes],
                    },
                    hovertemplate=SHOW_TEXT,
                    text=[change_text(change, history.series.metric, name) for change in changes],
                    customdata=[run_at.get(change.commit.hash) for change in changes],
                    cliponaxis=False,
                )
            )
    return traces


def change_labels(changes: Sequence[SeriesChange], frame: Frame, is_ours: bool) -> list[go.layout.Annotation]:
    """Magnitudes of the largest changes, in lanes above the plot; largest first."""
    largest = sorted(changes, key=lambda change: -abs(change.magnitude))[:_LABELLED]
    return [
        label(
            quantities.change(change.magnitude, change.before),
            frame.x(change.commit),
            1,
            font={"color": _colour(change, is_ours)},
            **{**_ON_COMMIT, "name": "change", "yanchor": "top", "xshift": 3},
        )
        for change in largest
    ]


def change_lines(changes: Sequence[SeriesChange], frame: Frame, is_ours: bool) -> list[go.layout.Shape]:
    """A vertical line at each changepoint."""
    return [vertical_line(frame.x(each.commit), _colour(each, is_ours), layer="below") for each in changes]


_SLOW = frozenset({ChangeKind.DRIFT, ChangeKind.SLOW_DECLINE})


def episode_traces(history: History, frame: Frame) -> list[go.Scatter]:
    """A diamond at the start of each episode, or the end of a drift or a slow decline."""
    if not history.episodes:
        return []
    run_at = _runs(history)
    ends = [each.range_end if each.kind in _SLOW else each.commit for each in history.episodes]
    return [
        go.Scatter(
            name="episode",
            mode="markers",
            x=[frame.x(commit) for commit in ends],
            y=[frame.y(episode.after, commit) for episode, commit in zip(history.episodes, ends, strict=True)],
            marker={"color": MUTED, "size": 11, "symbol": "diamond-open", "line_width": 1.5},
            hovertemplate=SHOW_TEXT,
            text=[episode_text(episode, history.series.metric) for episode in history.episodes],
            customdata=[run_at.get(commit.hash) for commit in ends],
        )
    ]


def _runs(history: History) -> dict[str, str]:
    return {point.commit.hash: point.run[:RUN_DIGITS] for point in history.points}


def _colour(change: SeriesChange, is_ours: bool) -> str:
    if change.below_limit is not None:
        return MUTED
    is_a_commits = is_ours and change.kind is ChangeKind.STEP
    return (WORSE if change.is_worse else BETTER) if is_a_commits else INK


_LOOKS = {
    MarkKind.RELEASE: ("release", INK, "star-triangle-up"),
    MarkKind.NOTE: ("note", INK, "hexagram-open"),
    MarkKind.MACHINE: ("machine changed", MUTED, "square-open"),
}
_MAX_LABEL = 28  # characters
_MAX_LINES = 40
_CARD = re.compile(r"^card (GPU-[0-9a-f]{4})[0-9a-f]*")


def mark_traces(marks: Sequence[Mark], frame: Frame) -> list[go.Scatter]:
    """One marker per mark, one trace per kind."""
    traces = []
    for kind, (name, colour, symbol) in _LOOKS.items():
        mine = [mark for mark in marks if mark.kind is kind]
        if mine:
            traces.append(
                go.Scatter(
                    name=name,
                    mode="markers",
                    yaxis="y4",
                    x=[frame.x(mark.commit) for mark in mine],
                    y=[0] * len(mine),
                    marker={"color": colour, "size": 9, "symbol": symbol, "line": {"width": 1.5, "color": colour}},
                    hovertemplate=SHOW_TEXT,
                    text=[mark_text(mark) for mark in mine],
                )
            )
    return traces


def mark_axis(domain: Domain) -> dict[str, Any]:
    """Axis of the strip, without a scale."""
    return {"domain": domain, "range": [-1, 1], "showticklabels": False, "showgrid": False, "fixedrange": True}


def mark_lines(marks: Sequence[Mark], frame: Frame) -> list[go.layout.Shape]:
    """Vertical lines; none if there are very many marks."""
    if len(marks) > _MAX_LINES:
        return []
    return [
        vertical_line(frame.x(mark.commit), MUTED, "dash" if mark.kind is MarkKind.MACHINE else "solid", layer="below")
        for mark in marks
        if mark.kind is not MarkKind.NOTE
    ]


def mark_labels(marks: Sequence[Mark], frame: Frame, domain: Domain) -> list[go.layout.Annotation]:
    """Texts of the marks, releases first; series.js shows those that fit."""
    first = sorted(marks, key=lambda mark: list(_LOOKS).index(mark.kind))
    return [
        label(
            plain(_short(mark.text)),
            frame.x(mark.commit),
            sum(domain) / 2,
            **{**_ON_COMMIT, "name": "mark", "yanchor": "middle", "xshift": 7, "visible": False},
        )
        for mark in first[:_MAX_LINES]
    ]


def _short(text: str) -> str:
    line = _CARD.sub(r"\1", text.splitlines()[0] if text else "")  # short, so that more labels fit
    return line if len(line) <= _MAX_LABEL else line[: _MAX_LABEL - 1].rstrip() + "…"

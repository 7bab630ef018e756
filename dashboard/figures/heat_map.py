"""A kernel's shapes over commits: how far each lies from its reference level, and where its level changed."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median
from typing import Any

from warpwatch.dashboard import quantities
from warpwatch.dashboard.figures.hover import commit_text
from warpwatch.dashboard.figures.layout import layout, plain
from warpwatch.dashboard.figures.palette import INK, MUTED
from warpwatch.dashboard.status_words import no_number
from warpwatch.dashboard.store.kernel_records import Kernel, ShapeRow

_LEAST_SPAN = 0.05  # of the colours, either way: noise must not look like a change
_MOST_SPAN = 0.5
_WRITTEN = 16  # commits up to which each cell has its number
_OF_LEVEL = 3  # commits that tell the reference level, up to a change


class Reference(StrEnum):
    """The level that a shape is compared with."""

    FIRST = "first"  # of the oldest commits on display
    NEWEST = "newest"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatRow:
    """A shape with its reference level, and its change from there at each commit (None: no number)."""

    shape: ShapeRow
    level: float | None
    change: tuple[float | None, ...]


def heat_rows(kernel: Kernel, reference: Reference) -> tuple[HeatRow, ...]:
    """Each shape against the median of its first (or newest) commits on one level."""
    return tuple(_row(kernel, shape, reference) for shape in kernel.rows)


def heat_map_figure(kernel: Kernel, rows: Sequence[HeatRow], names: Sequence[str]) -> dict[str, Any]:
    """Plotly's JSON. Blue is better and vermillion worse, whichever way the metric counts."""
    commits = [commit.hash[:8] for commit in kernel.commits]
    metric = kernel.rows[0].series.metric
    sign = 1 if metric.is_worse(0.1) else -1
    sizes = sorted(abs(each) for row in rows for each in row.change if each is not None)
    span = min(max(sizes[int(0.98 * (len(sizes) - 1))] if sizes else 0.0, _LEAST_SPAN), _MOST_SPAN)
    labels = [plain(name) for name in names]
    is_written = len(commits) <= _WRITTEN
    cells = {
        "type": "heatmap", "name": "cells", "x": list(range(len(commits))), "y": list(range(len(rows))),
        "z": [[None if each is None else round(sign * each, 5) for each in row.change] for row in rows],
        "zmin": -span, "zmax": span, "xgap": 1, "ygap": 1, "hoverongaps": False,
        "colorscale": [[0, "--ww-cell-better"], [0.5, "--ww-cell"], [1, "--ww-cell-worse"]],
        "showscale": False,
        "text": [[_cell_text(kernel, row, name, place) for place in range(len(commits))]
                 for row, name in zip(rows, labels, strict=True)],
        "hovertemplate": "%{text}<extra></extra>",
        "customdata": [[row.shape.series.key] * len(commits) for row in rows],
    }  # fmt: skip
    return {
        "data": [cells, *_marks(kernel, rows), *([_numbers(rows)] if is_written else [])],
        "layout": layout(
            margin={"l": 62, "r": 14, "t": 34, "b": 64},
            hovermode="closest",
            xaxis={"type": "linear", "tickmode": "array", "tickvals": list(range(len(commits))), "ticktext": commits,
                   "range": [-0.5, len(commits) - 0.5], "showgrid": False, "zeroline": False, "automargin": True,
                   "tickfont": {"color": MUTED, "size": 11, "family": "ui-monospace, monospace"}, "fixedrange": True},
            yaxis={"type": "linear", "tickmode": "array", "tickvals": list(range(len(rows))), "ticktext": labels,
                   "range": [len(rows) - 0.5, -0.5], "showgrid": False, "zeroline": False, "automargin": True,
                   "title": {"text": ""}, "tickfont": {"color": INK, "size": 11}, "fixedrange": True},
            meta={"commits": commits},
        ),
    }  # fmt: skip


def _row(kernel: Kernel, shape: ShapeRow, reference: Reference) -> HeatRow:
    values = [cell.value if cell is not None else None for cell in shape.cells]
    changed = {change.commit.hash for change in shape.changes}
    places = list(range(len(values)))
    level: list[float] = []
    for place in places if reference is Reference.FIRST else reversed(places):
        is_change = kernel.commits[place].hash in changed
        if reference is Reference.FIRST and is_change and level:
            break
        value = values[place]
        if value is not None:
            level.append(value)
        if len(level) == _OF_LEVEL or (reference is Reference.NEWEST and is_change and level):
            break
    base = median(level) if level else None
    change = tuple(value / base - 1 if value is not None and base else None for value in values)
    return HeatRow(shape=shape, level=base, change=change)


def _cell_text(kernel: Kernel, row: HeatRow, name: str, place: int) -> str:
    cell, commit = row.shape.cells[place], kernel.commits[place]
    if cell is None:
        return ""
    unit = row.shape.series.metric.unit
    said = no_number(cell.status, cell.reason)
    if cell.value is not None:
        change = row.change[place]
        said = f"{quantities.quantity(cell.value, unit)}" + (
            f", {quantities.change(change)}" if change is not None else ""
        )
    return f"<b>{name}</b><br>{plain(said)}<br>{commit_text(commit, short=len(kernel.commits) > _WRITTEN)}"


def _marks(kernel: Kernel, rows: Sequence[HeatRow]) -> list[dict[str, Any]]:
    """A triangle where a level changed, upwards where the value rose; a cross where there is no number."""
    place = {commit.hash: number for number, commit in enumerate(kernel.commits)}
    up: list[tuple[int, int, HeatRow]] = []
    down: list[tuple[int, int, HeatRow]] = []
    none: list[tuple[int, int, HeatRow]] = []
    for number, row in enumerate(rows):
        for change in row.shape.changes:
            if change.commit.hash in place:
                (up if change.magnitude > 0 else down).append((place[change.commit.hash], number, row))
        none += [(n, number, row) for n, cell in enumerate(row.shape.cells) if cell is not None and cell.value is None]
    looks = (("level rose", "triangle-up", up), ("level fell", "triangle-down", down), ("no number", "x-thin", none))
    aside = 0.38 if len(kernel.commits) <= _WRITTEN else 0.0
    return [
        {
            "type": "scatter", "mode": "markers", "name": name, "hoverinfo": "skip",
            # Where cells have numbers the signs stand before them.
            "x": [x - (aside if found is not none else 0) for x, _, _ in found], "y": [y for _, y, _ in found],
            "marker": {"symbol": symbol, "size": 8, "color": INK, "line": {"width": 1.5, "color": INK}},
            "customdata": [row.shape.series.key for _, _, row in found],
        }
        for name, symbol, found in looks
        if found
    ]  # fmt: skip


def _numbers(rows: Sequence[HeatRow]) -> dict[str, Any]:
    told = [(x, y, change) for y, row in enumerate(rows) for x, change in enumerate(row.change) if change is not None]
    return {
        "type": "scatter", "mode": "text", "hoverinfo": "skip", "showlegend": False, "name": "numbers",
        "x": [x for x, _, _ in told], "y": [y for _, y, _ in told],
        "text": [_percent(change) for *_, change in told], "textfont": {"color": INK, "size": 10},
    }  # fmt: skip


def _percent(change: float) -> str:
    return quantities.change(change).removesuffix(" %")

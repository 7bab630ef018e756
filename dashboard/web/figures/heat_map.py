"""Heat map of a kernel: relative difference of each workload from its reference level, by commit.

Values are GPU-adjusted where references show how GPUs differ. Otherwise a reference is the level on one GPU; cells of
another GPU are pale, and their numbers have a star.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import median
from typing import Any

import plotly.graph_objects as go

from ...analysis.causes import SoftwareChange, software_changes
from ...model import quantities
from ...model.history import no_number
from ...model.kernel_line import Kernel, ShapeRow
from ...model.naming import SOFTWARE_NAMES, gpu_name
from ...text.change_words import software_words
from .history_view import commit_tick
from .hover import SHOW_TEXT, commit_text
from .style import CELL, CELL_BETTER, CELL_WORSE, INK, MONOSPACE, MUTED, figure, label, plain, vertical_line

_MIN_SPAN = 0.05  # of the colours, so that noise is not visible
_MAX_SPAN = 0.7
_MAX_NUMBERED = 20  # commits up to which cells have numbers
_PALE = 0.65
_REFERENCE_COMMITS = 3  # median of up to so many commits
_SIGNS = {**SOFTWARE_NAMES, "suite": "harness"}
_ADJUSTED = "adjusted"  # in place of the GPUs of a cell
_AXIS = {"type": "linear", "tickmode": "array", "showgrid": False, "fixedrange": True}


class Reference(StrEnum):
    """Reference level of a workload."""

    FIRST = "first"  # of the oldest commits on display
    NEWEST = "newest"
    OWN_GPU = "card"  # of the oldest commits on the cell's GPU


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatRow:
    """A workload, its reference level (that of the newest commit), and the relative change at each commit (None without
    a value)."""

    shape: ShapeRow
    level: float | None
    change: tuple[float | None, ...]
    is_other_gpu: tuple[bool, ...]  # measured on another GPU than the reference

    @property
    def is_adjusted(self) -> bool:
        """Whether any value is known GPU-adjusted."""
        return any(cell is not None and cell.adjusted is not None for cell in self.shape.cells)


def heat_rows(kernel: Kernel, reference: Reference) -> tuple[HeatRow, ...]:
    """One row per workload, relative to the median of its first (or newest) commits on one level."""
    return tuple(_row(kernel, shape, reference) for shape in kernel.rows)


def by_gpu(kernel: Kernel, rows: Sequence[HeatRow]) -> tuple[Kernel, tuple[HeatRow, ...]]:
    """Both with the commits of one GPU side by side, GPUs in the order of their first commit."""
    gpus = [tuple(sorted(_column_gpus(kernel, place))) for place in range(len(kernel.commits))]
    rank = {each: number for number, each in enumerate(dict.fromkeys(gpus))}
    order = sorted(range(len(gpus)), key=lambda place: rank[gpus[place]])

    def turned(row: HeatRow) -> HeatRow:
        return replace(
            row,
            shape=replace(row.shape, cells=tuple(row.shape.cells[place] for place in order)),
            change=tuple(row.change[place] for place in order),
            is_other_gpu=tuple(row.is_other_gpu[place] for place in order),
        )

    changed = tuple(map(turned, rows))
    commits = tuple(kernel.commits[place] for place in order)
    software = tuple(kernel.software[place] for place in order)
    shapes = tuple(row.shape for row in changed)
    return replace(kernel, commits=commits, software=software, rows=shapes), changed


def _column_gpus(kernel: Kernel, place: int) -> frozenset[str]:
    """GPUs that measured any shape at a commit."""
    return frozenset(gpu for row in kernel.rows if (cell := row.cells[place]) is not None for gpu in cell.gpus)


def heat_map_figure(
    kernel: Kernel, rows: Sequence[HeatRow], names: Sequence[str], *, is_by_gpu: bool = False
) -> go.Figure:
    """The figure, one row per name; blue is better, vermillion worse. `is_by_gpu`: as `by_gpu` orders commits."""
    commits = [commit_tick(commit) for commit in kernel.commits]
    labels = [plain(name) for name in names]
    return figure(
        [
            *_cells(kernel, rows, labels),
            *_marks(kernel, rows),
            *([_numbers(rows)] if len(commits) <= _MAX_NUMBERED else []),
        ],
        margin_b=64,
        margin_t=56,
        showlegend=False,  # the words below the figure explain its marks; above are the names of columns
        annotations=_gpu_names(kernel) if is_by_gpu else _software_marks(kernel),
        xaxis={
            **_AXIS,
            "tickvals": list(range(len(commits))),
            "ticktext": commits,
            "range": [-0.5, len(commits) - 0.5],
            "tickfont": {"size": 10, "family": MONOSPACE},
        },
        yaxis={
            **_AXIS,
            "tickvals": list(range(len(rows))),
            "ticktext": labels,
            "range": [len(rows) - 0.5, -0.5],
            "tickfont_color": INK,
        },
        shapes=[
            *_gpu_changes(kernel),
            *(_line(place, "solid", 1.02) for place, _ in _software_changes(kernel) if not is_by_gpu),
        ],
        meta={"commits": commits, "newest": [_newest(row) for row in rows]},
    )


def _cells(kernel: Kernel, rows: Sequence[HeatRow], labels: Sequence[str]) -> list[go.Heatmap]:
    """Cells; those of another GPU than the reference are a paler trace of their own."""
    commits = range(len(kernel.commits))
    sign = 1 if kernel.rows[0].series.metric.is_worse(0.1) else -1
    sizes = sorted(abs(each) for row in rows for each in row.change if each is not None)
    span = min(max(sizes[int(0.98 * (len(sizes) - 1))] if sizes else 0.0, _MIN_SPAN), _MAX_SPAN)
    common: dict[str, Any] = {
        "x": list(commits),
        "y": list(range(len(rows))),
        "zmin": -span,
        "zmax": span,
        "xgap": 1,
        "ygap": 1,
        "hoverongaps": False,
        "colorscale": [[0, CELL_BETTER], [0.5, CELL], [1, CELL_WORSE]],
        "showscale": False,
        "text": [
            [_cell_text(kernel, row, name, place) for place in commits] for row, name in zip(rows, labels, strict=True)
        ],
        "hovertemplate": SHOW_TEXT,
        "customdata": [[_point_of(row, place) for place in commits] for row in rows],
    }
    own, elsewhere = (
        [
            [
                None if each is None or there is not wanted else round(sign * each, 5)
                for each, there in zip(row.change, row.is_other_gpu, strict=True)
            ]
            for row in rows
        ]
        for wanted in (False, True)
    )
    traces = [go.Heatmap(name="cells", z=own, **common)]
    if any(each is not None for row in elsewhere for each in row):
        traces.append(go.Heatmap(name="on another GPU", z=elsewhere, opacity=_PALE, **common))
    return traces


def _row(kernel: Kernel, shape: ShapeRow, reference: Reference) -> HeatRow:
    value = {
        place: cell.value if reference is Reference.OWN_GPU or cell.adjusted is None else cell.adjusted
        for place, cell in enumerate(shape.cells)
        if cell is not None and cell.value is not None
    }
    gpus = [_gpus_of(shape, place, reference) for place in range(len(shape.cells))]
    in_order = list(value) if reference is not Reference.NEWEST else list(value)[::-1]
    home = {place: gpus[place if reference is Reference.OWN_GPU else in_order[0]] for place in value}
    level = {
        home_gpus: _level(kernel, shape, [place for place in in_order if gpus[place] == home_gpus])
        for home_gpus in set(home.values())
    }
    return HeatRow(
        shape=shape,
        level=level[home[max(value)]] if value else None,
        change=tuple(
            value[place] / level[home[place]] - 1 if place in value and level[home[place]] else None
            for place in range(len(shape.cells))
        ),
        is_other_gpu=tuple(
            place in value and bool(home[place] and cell_gpus) and not home[place] & cell_gpus
            for place, cell_gpus in enumerate(gpus)
        ),
    )


def _gpus_of(shape: ShapeRow, place: int, reference: Reference = Reference.OWN_GPU) -> frozenset[str]:
    """GPUs that measured the cell; empty for exact metrics, and for GPU-adjusted values unless GPUs are the subject."""
    cell = shape.cells[place]
    if cell is None or shape.series.metric.is_exact:
        return frozenset()
    return frozenset({_ADJUSTED}) if reference is not Reference.OWN_GPU and cell.adjusted is not None else cell.gpus


def _level(kernel: Kernel, shape: ShapeRow, places: Sequence[int]) -> float:
    """Median of the first of these commits that are on the first one's level."""
    changed = {change.commit.hash for change in shape.changes}
    level = list(itertools.accumulate(commit.hash in changed for commit in kernel.commits))
    alike = [shape.cells[place] for place in places if level[place] == level[places[0]]][:_REFERENCE_COMMITS]
    return median(cell.value for cell in alike if cell is not None and cell.value is not None)


def _gpu_changes(kernel: Kernel) -> list[go.layout.Shape]:
    """A vertical line before each commit that was measured on other GPUs than the previous one."""
    columns = []
    for place in range(len(kernel.commits)):
        columns.append(frozenset(gpu for row in kernel.rows for gpu in _gpus_of(row, place)))
    known = [(place, gpus) for place, gpus in enumerate(columns) if gpus]
    return [_line(place, "dot") for (_, before), (place, gpus) in itertools.pairwise(known) if not before & gpus]


def _line(place: int, dash: str, top: float = 1.0) -> go.layout.Shape:
    """A vertical line before a commit."""
    return vertical_line(place - 0.5, MUTED, dash, y0=0 if top == 1.0 else 1, y1=top)


def _gpu_names(kernel: Kernel) -> list[go.layout.Annotation]:
    """Above the first commit of each GPU its name."""
    names = [
        " and ".join(gpu_name(gpu).removeprefix("GPU-") for gpu in sorted(_column_gpus(kernel, place))) or "unknown"
        for place in range(len(kernel.commits))
    ]
    firsts = [place for place, name in enumerate(names) if place == 0 or names[place - 1] != name]
    return [_above(place, names[place], names[place]) for place in firsts]


def _software_marks(kernel: Kernel) -> list[go.layout.Annotation]:
    """Above a commit, that harness, driver or libraries differ from the commit before."""
    return [
        _above(place, " ".join(dict.fromkeys(_SIGNS.get(each.name, each.name) for each in changes)), "; ".join(words))
        for place, changes in _software_changes(kernel)
        if (words := [software_words(each) for each in changes])
    ]


def _software_changes(kernel: Kernel) -> list[tuple[int, tuple[SoftwareChange, ...]]]:
    known = [(place, facts) for place, facts in enumerate(kernel.software) if facts is not None]
    return [
        (place, changes)
        for (_, before), (place, after) in itertools.pairwise(known)
        if (changes := software_changes(before, after))
    ]


def _above(place: int, text: str, hover: str) -> go.layout.Annotation:
    font = {"size": 10, "color": MUTED}
    return label(plain(text), place - 0.5, 1, xref="x", showarrow=False, hovertext=plain(hover), font=font)


def _cell_text(kernel: Kernel, row: HeatRow, name: str, place: int) -> str:
    cell, commit = row.shape.cells[place], kernel.commits[place]
    if cell is None:
        return ""
    unit = row.shape.series.metric.unit
    text = no_number(cell.status, cell.reason)
    if cell.value is not None:
        change = row.change[place]
        text = f"{quantities.quantity(cell.value, unit)}" + (
            f", {quantities.change(change)}" if change is not None else ""
        )
        if row.is_other_gpu[place]:
            text += ", on another GPU than the reference:"
    gpus = f"<br>{plain(' and '.join(map(gpu_name, sorted(cell.gpus))))}" if cell.gpus else ""
    return f"<b>{name}</b><br>{plain(text)}{gpus}<br>{commit_text(commit, short=len(kernel.commits) > _MAX_NUMBERED)}"


def _marks(kernel: Kernel, rows: Sequence[HeatRow]) -> list[go.Scatter]:
    """Triangles at changepoints (up: the value rose), crosses at failed measurements."""
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
    aside = 0.38 if len(kernel.commits) <= _MAX_NUMBERED else 0.0
    return [
        go.Scatter(
            mode="markers",
            name=name,
            hoverinfo="skip",
            # Left of the numbers, if there are any.
            x=[x - (aside if found is not none else 0) for x, _, _ in found],
            y=[y for _, y, _ in found],
            marker={"symbol": symbol, "size": 8, "color": INK, "line": {"width": 1.5, "color": INK}},
            customdata=[_point_of(row, x) for x, _, row in found],
        )
        for name, symbol, found in looks
        if found
    ]


def _numbers(rows: Sequence[HeatRow]) -> go.Scatter:
    known = [
        (x, y, change, row.is_other_gpu[x])
        for y, row in enumerate(rows)
        for x, change in enumerate(row.change)
        if change is not None
    ]
    return go.Scatter(
        mode="text",
        hoverinfo="skip",
        showlegend=False,
        name="numbers",
        x=[x for x, *_ in known],
        y=[y for _, y, *_ in known],
        text=[f"{_percent(change)}*" if there else _percent(change) for *_, change, there in known],
        textfont={"color": INK, "size": 10},
    )


def _point_of(row: HeatRow, place: int) -> list[str]:
    """Series key and run, for the URL of the point."""
    cell = row.shape.cells[place]
    return [row.shape.series.key, cell.run if cell is not None else ""]


def _newest(row: HeatRow) -> str:
    """Change at the newest commit with a value, for narrow screens."""
    return next((_percent(change) for change in reversed(row.change) if change is not None), "")


def _percent(change: float) -> str:
    return quantities.change(change).removesuffix(" %")

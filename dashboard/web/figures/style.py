"""Style of all figures: colours and looks of implementations, plotly's template for each theme, axes and panes.

The templates are registered as "warpwatch_light" and "warpwatch_dark". A figure is made in the light one, so that a
notebook shows it as it is. A page has both templates once (`themes_json`) and its figures without theirs (`page_json`);
static/charts.js puts the reader's theme in.

The colours are Okabe and Ito's ("Color Universal Design", 2008), distinct with any colour vision, and four more, so
that no two implementations of the table share one. Vermillion is kept for regressions. static/warpwatch.css states the
values; constants here are those of the light theme.
"""

import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
import plotly.io as pio
from markupsafe import Markup
from plotly.io.json import to_json_plotly

_CSS = Path(__file__).resolve().parents[1] / "static" / "warpwatch.css"


class Theme(StrEnum):
    """Colour theme of a page."""

    LIGHT = "light"
    DARK = "dark"


def _colours(theme: Theme) -> dict[str, str]:
    """By name: "blue" is what the style sheet calls --ww-blue."""
    blocks = re.findall(rf'\[data-bs-theme="{theme}"\] {{(.*?)}}', _CSS.read_text(), re.DOTALL)
    return dict(re.findall(r"--ww-([\w-]+):\s*([^;]+);", blocks[0]))


COLOURS: Mapping[Theme, Mapping[str, str]] = {theme: _colours(theme) for theme in Theme}
_LIGHT = COLOURS[Theme.LIGHT]
INK, MUTED, GRID, SURFACE = (_LIGHT[name] for name in ("ink", "muted", "grid", "surface"))
BLUE, ORANGE, GREEN, GREY = (_LIGHT[name] for name in ("blue", "orange", "green", "grey"))
BAND = _LIGHT["band"]
WORSE, BETTER = _LIGHT["vermillion"], GREEN
CELL, CELL_BETTER, CELL_WORSE = (_LIGHT[name] for name in ("cell", "cell-better", "cell-worse"))
# Of canaries by their place in the order of their workloads' names: colour, dash, symbol.
CANARIES = (
    (GREY, "solid", "square"),
    (_LIGHT["sky"], "dash", "cross"),
    (_LIGHT["purple"], "dot", "diamond"),
    (GREEN, "dashdot", "triangle-up"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """Name, colour and line of one implementation."""

    label: str
    colour: str
    dash: str


_LOOKS = {
    name: Look(label=label, colour=_LIGHT[colour], dash=dash)
    for name, label, colour, dash in (
        ("warpwatch", "warpwatch", "blue", "solid"),
        ("triton", "Triton", "purple", "solid"),
        ("unfused", "warpwatch, unfused", "indigo", "solid"),
        ("naive", "naive", "yellow", "solid"),
        ("unquantized", "warpwatch, unquantized", "brown", "solid"),
        ("sdpa", "SDPA", "green", "dash"),
        ("sdpa_flash", "SDPA, FlashAttention-2", "lime", "longdash"),
        ("cublas", "cuBLAS", "orange", "dash"),
        ("eager", "PyTorch eager", "grey", "dot"),
        ("torch_compile", "torch.compile", "teal", "dashdot"),
    )
}
_FURTHER = ("orange", "teal", "purple", "green", "yellow", "indigo", "brown", "lime")


def look(implementation: str | None) -> Look:
    """The look of an implementation; one without a row in the table gets the same colour in every process."""
    if implementation is None:
        return _LOOKS["warpwatch"]
    if implementation in _LOOKS:
        return _LOOKS[implementation]
    colour = _FURTHER[zlib.crc32(implementation.encode()) % len(_FURTHER)]
    return Look(label=implementation, colour=_LIGHT[colour], dash="longdash")


FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'Liberation Sans', sans-serif"
MONOSPACE = "ui-monospace, monospace"
MARGIN = {"l": 62, "r": 14, "t": 34, "b": 44}
TRANSPARENT = "rgba(0,0,0,0)"


def _template(theme: Theme) -> go.layout.Template:
    colours = COLOURS[theme]
    ink, muted, grid, surface = (colours[name] for name in ("ink", "muted", "grid", "surface"))
    axis = {
        "automargin": True,
        "gridcolor": grid,
        "linecolor": grid,
        "tickfont": {"color": muted, "size": 11},
        "title": {"standoff": 8, "font": {"color": muted, "size": 12}},
        "zeroline": False,
        "zerolinecolor": grid,
    }
    layout = {
        "annotationdefaults": {"showarrow": False, "font": {"color": muted, "size": 11}},
        "font": {"family": FONT, "size": 12, "color": ink},
        "hoverlabel": {"align": "left", "bgcolor": surface, "bordercolor": grid, "font": {"color": ink, "size": 12}},
        "hovermode": "closest",
        "legend": {
            "orientation": "h",
            "x": 0,
            "xanchor": "left",
            "y": 1.01,
            "yanchor": "bottom",
            "bgcolor": TRANSPARENT,
        },
        "margin": MARGIN,
        "paper_bgcolor": surface,
        "plot_bgcolor": TRANSPARENT,
        "xaxis": axis,
        "yaxis": axis,
    }
    return go.layout.Template(layout=layout)


def _name(theme: Theme) -> str:
    return f"warpwatch_{theme}"


for _theme in Theme:
    pio.templates[_name(_theme)] = _template(_theme)


def figure(data: Any, **layout: Any) -> go.Figure:
    """A figure of these traces in the light theme."""
    return go.Figure(data, {"template": _name(Theme.LIGHT), **layout})


def in_theme(made: go.Figure, theme: Theme) -> go.Figure:
    """The figure in the colours of a theme; it was made in those of the light one."""
    if theme == Theme.LIGHT:
        return made
    parts = made.to_plotly_json()
    del parts["layout"]["template"]
    return go.Figure(_recoloured(parts, _from_light_to_dark())).update_layout(template=_name(theme))


def _recoloured(value: Any, colours: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {name: _recoloured(each, colours) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_recoloured(each, colours) for each in value]
    return colours.get(value, value) if isinstance(value, str) else value


def page_json(made: go.Figure) -> Markup:
    """A figure as a page holds it, in a script element: without its template, which the page has once."""
    parts = made.to_plotly_json()
    del parts["layout"]["template"]
    return Markup(to_json_plotly(parts, engine="orjson"))  # which escapes "<", ">" and "/"


@cache
def themes_json() -> Markup:
    """The templates by theme, and which colour of the light theme becomes which of the dark one."""
    templates = {theme.value: pio.templates[_name(theme)] for theme in Theme}
    return Markup(to_json_plotly({"templates": templates, "dark": _from_light_to_dark()}, engine="orjson"))


def _from_light_to_dark() -> dict[str, str]:
    light, dark = COLOURS[Theme.LIGHT], COLOURS[Theme.DARK]
    return {light[name]: dark[name] for name in light}


def date_axis(**more: Any) -> dict[str, Any]:
    """An axis of dates in ISO 8601, UTC."""
    day = "%Y-%m-%d"
    stops = [
        {"dtickrange": [None, 60_000], "value": f"%H:%M:%S\n{day}"},
        {"dtickrange": [60_000, 86_400_000], "value": f"%H:%M\n{day}"},
        {"dtickrange": [86_400_000, "M1"], "value": day},
        {"dtickrange": ["M1", "M12"], "value": "%Y-%m"},
        {"dtickrange": ["M12", None], "value": "%Y"},
    ]
    return {"title_text": "UTC", "type": "date", "tickformatstops": stops, "hoverformat": f"{day} %H:%M UTC", **more}


def label(text: str, x: Any, y: float, **more: Any) -> go.layout.Annotation:
    """A text right of and above a point, by default in fractions of the figure."""
    place = {"x": x, "xref": "paper", "xanchor": "left", "y": y, "yref": "paper", "yanchor": "bottom"}
    return go.layout.Annotation(text=text, **{**place, **more})


def vertical_line(x: Any, colour: str, dash: str = "dot", **more: Any) -> go.layout.Shape:
    """A thin line at a place of the axis, over the whole height."""
    line = {"color": colour, "width": 1, "dash": dash}
    ends = {"x0": x, "x1": x, "y0": 0, "y1": 1}
    return go.layout.Shape(type="line", xref="x", yref="paper", line=line, **{**ends, **more})


def plain(text: str) -> str:
    """Escape HTML, which plotly reads in labels and hovers."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


Domain = tuple[float, float]  # fractions of the height, from below

_MAIN = 322.0  # pixels, without margins and overlays
PANE = 130.0  # pixels per overlaid series, as in series.css
_STRIP, _STRIP_GAP = 17.0, 12.0
_CANARIES, _CANARIES_GAP = 54.0, 20.0
_PANE_GAP = 28.0
LANE = 16.0  # of one row of labels


@dataclass(frozen=True, slots=True, kw_only=True)
class Panes:
    """Vertical domains of the parts; absent ones are empty."""

    no_numbers: Domain
    marks: Domain
    canaries: Domain
    overlays: tuple[Domain, ...]
    main: Domain


def panes(*, no_numbers: bool, marks: bool, canaries: bool, overlays: int, lanes: int) -> Panes:
    """Domains from below: failures, marks, canaries, overlays (the last one lowest), main plot."""
    whole = _MAIN + overlays * PANE
    foot = 0.0

    def take(height: float, gap: float) -> Domain:
        nonlocal foot
        domain = (foot / whole, (foot + height) / whole)
        foot += height + gap if height else 0.0
        return domain

    bottom = take(_STRIP if no_numbers else 0.0, _STRIP_GAP)
    marked = take(_STRIP if marks else 0.0, _STRIP_GAP)
    machine = take(_CANARIES if canaries else 0.0, _CANARIES_GAP)
    others = [take(PANE - _PANE_GAP, _PANE_GAP) for _ in range(overlays)][::-1]
    main = (foot / whole, 1 - lanes * LANE / whole)
    return Panes(no_numbers=bottom, marks=marked, canaries=machine, overlays=tuple(others), main=main)

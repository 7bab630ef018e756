"""What all figures share: their form, a template for each theme, and the way from a figure to a page.

A figure is plotly's JSON, in the colours of the light theme. A page has both templates once (`themes_json`) and its
figures without (`page_json`); static/charts.js adds the template of the reader's theme. plotly.py would validate and
copy every attribute, half of a series page's CPU time: plotly_figure.py makes its `go.Figure`, for pictures and
notebooks.
"""

from collections.abc import Iterable
from functools import cache
from typing import Any

import orjson
from markupsafe import Markup

from .palette import COLOURS, Theme

Trace = dict[str, Any]
Figure = dict[str, Any]  # "data" and "layout"

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'Liberation Sans', sans-serif"
MONOSPACE = "ui-monospace, monospace"
MARGIN = {"l": 62, "r": 14, "t": 34, "b": 44}
TRANSPARENT = "rgba(0,0,0,0)"


def template(theme: Theme) -> dict[str, Any]:
    """Plotly's template of a theme."""
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
    return {"layout": layout}


def trace(kind: str, **attributes: Any) -> Trace:
    """A trace of plotly's type `kind`."""
    return {"type": kind, **attributes}


def figure(data: Iterable[Trace], **layout: Any) -> Figure:
    """A figure of these traces in the light theme."""
    return {"data": list(data), "layout": layout}


def page_json(value: Any) -> Markup:
    """A figure as JSON that cannot end the script element that holds it."""
    return Markup(orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY).decode().replace("<", "\\u003c"))


@cache
def themes_json() -> Markup:
    """The templates by theme, and which colour of the light theme becomes which of the dark one."""
    return page_json({"templates": {theme.value: template(theme) for theme in Theme}, "dark": from_light_to_dark()})


def from_light_to_dark() -> dict[str, str]:
    """Which colour of the light theme becomes which of the dark one."""
    light, dark = COLOURS[Theme.LIGHT], COLOURS[Theme.DARK]
    return {light[name]: dark[name] for name in light}

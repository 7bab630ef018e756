"""What all figures share: a template of plotly's for each theme, and the way from a figure to a page.

The templates are registered as "warpwatch_light" and "warpwatch_dark". A figure is made in the light one, so that a
notebook shows it as it is. A page has both templates once (`themes_json`) and its figures without theirs (`page_json`);
static/charts.js puts the reader's theme in.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any

import plotly.graph_objects as go
import plotly.io as pio
from markupsafe import Markup
from plotly.io.json import to_json_plotly

from .palette import COLOURS, Theme

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

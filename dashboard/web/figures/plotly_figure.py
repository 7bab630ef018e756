"""Figures as plotly.py's, for pictures and notebooks."""

from collections.abc import Mapping
from typing import Any

import plotly.graph_objects as go

from .palette import Theme
from .themes import Figure, from_light_to_dark, template


def plotly_figure(made: Figure, theme: Theme = Theme.LIGHT) -> go.Figure:
    """The figure in a theme. Raises ValueError for an attribute that plotly.py does not know."""
    parts = made if theme is Theme.LIGHT else _recoloured(made, from_light_to_dark())
    return go.Figure(parts).update_layout(template=template(theme))


def _recoloured(value: Any, colours: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {name: _recoloured(each, colours) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_recoloured(each, colours) for each in value]
    return colours.get(value, value) if isinstance(value, str) else value

"""What all figures share: fonts, grid, hover box and margins, in the theme's own colours."""

from typing import Any

from warpwatch.dashboard.figures.palette import GRID, INK, MUTED, SURFACE

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'Liberation Sans', sans-serif"


def layout(**more: Any) -> dict[str, Any]:
    """A figure's layout with `more` laid over it."""
    return {
        "autosize": True,
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": FONT, "size": 12, "color": INK},
        "margin": {"l": 62, "r": 14, "t": 34, "b": 44},
        "hoverlabel": {"align": "left", "bgcolor": SURFACE, "bordercolor": GRID, "font": {"color": INK, "size": 12}},
        "legend": {
            "orientation": "h", "x": 0, "xanchor": "left", "y": 1.01, "yanchor": "bottom",
            "bgcolor": "rgba(0,0,0,0)", "font": {"color": INK, "size": 12},
        },
        "dragmode": "zoom",
        **more,
    }  # fmt: skip


def axis(title: str, **more: Any) -> dict[str, Any]:
    """One axis with its title."""
    return {
        "title": {"text": title, "standoff": 8, "font": {"color": MUTED, "size": 12}},
        "gridcolor": GRID,
        "linecolor": GRID,
        "zeroline": False,
        "tickfont": {"color": MUTED, "size": 11},
        "automargin": True,
        **more,
    }


def date_axis(**more: Any) -> dict[str, Any]:
    """An axis of dates as everything else writes them: ISO 8601, in UTC."""
    day = "%Y-%m-%d"
    stops = [
        {"dtickrange": [None, 60_000], "value": f"%H:%M:%S\n{day}"},
        {"dtickrange": [60_000, 86_400_000], "value": f"%H:%M\n{day}"},
        {"dtickrange": [86_400_000, "M1"], "value": day},
        {"dtickrange": ["M1", "M12"], "value": "%Y-%m"},
        {"dtickrange": ["M12", None], "value": "%Y"},
    ]
    return axis("UTC", **{"type": "date", "tickformatstops": stops, "hoverformat": f"{day} %H:%M UTC", **more})


def plain(text: str) -> str:
    """A text for plotly, which reads a small HTML in labels and hovers: what came from outside stays text."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")

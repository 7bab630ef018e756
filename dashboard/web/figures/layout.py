"""Layout of figures: panes, date axis, escaping."""

from dataclasses import dataclass
from typing import Any


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
    beside: tuple[Domain, ...]
    main: Domain


def panes(*, no_numbers: bool, marks: bool, canaries: bool, beside: int, lanes: int) -> Panes:
    """Domains from below: failures, marks, canaries, overlays (the last one lowest), main plot."""
    whole = _MAIN + beside * PANE
    foot = 0.0

    def take(height: float, gap: float) -> Domain:
        nonlocal foot
        domain = (foot / whole, (foot + height) / whole)
        foot += height + gap if height else 0.0
        return domain

    bottom = take(_STRIP if no_numbers else 0.0, _STRIP_GAP)
    marked = take(_STRIP if marks else 0.0, _STRIP_GAP)
    machine = take(_CANARIES if canaries else 0.0, _CANARIES_GAP)
    others = [take(PANE - _PANE_GAP, _PANE_GAP) for _ in range(beside)][::-1]
    main = (foot / whole, 1 - lanes * LANE / whole)
    return Panes(no_numbers=bottom, marks=marked, canaries=machine, beside=tuple(others), main=main)

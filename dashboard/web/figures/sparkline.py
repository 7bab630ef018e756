"""A history of a few values as the path of a small inline SVG."""

from collections.abc import Sequence
from dataclasses import dataclass

WIDTH = 96.0
SPARKLINE_HEIGHT = 22.0
_MARGIN = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sparkline:
    """SVG path data, and where the newest value's dot goes; no dot where there is no value."""

    path: str
    dot: tuple[float, float] | None


def sparkline(values: Sequence[float | None]) -> Sparkline:
    """Values at even spacing, oldest left, scaled to their own range but never to less than 10 % of their size.

    Without that floor a quiet series would fill the height with its noise. A missing value is a gap in the line.
    """
    known = [value for value in values if value is not None]
    if not known:
        return Sparkline(path="", dot=None)
    middle = (max(known) + min(known)) / 2
    span = max(max(known) - min(known), 0.10 * abs(middle)) or 1.0
    step = (WIDTH - 2 * _MARGIN) / max(len(values) - 1, 1)
    pieces: list[str] = []
    dot: tuple[float, float] | None = None
    pen_down = False
    for index, value in enumerate(values):
        if value is None:
            pen_down = False
            continue
        x = round(_MARGIN + index * step, 1)
        y = round(SPARKLINE_HEIGHT / 2 - (value - middle) / span * (SPARKLINE_HEIGHT - 2 * _MARGIN), 1)
        pieces.append(f"{'L' if pen_down else 'M'}{x:g} {y:g}")
        pen_down, dot = True, (x, y)
    return Sparkline(path="".join(pieces), dot=dot)

"""Ours and the best baseline over commits as the paths of a small inline SVG."""

from collections.abc import Sequence
from dataclasses import dataclass

WIDTH = 240.0
HEIGHT = 64.0
_MARGIN = 4.0
_LEAST_SPAN = 0.1  # of the values, so that noise does not fill the height


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallChart:
    """SVG path data of both lines, the place of our newest value, and across the places of commits."""

    ours: str
    baseline: str
    dot: tuple[float, float] | None
    across: tuple[float, ...]


def small_chart(ours: Sequence[float | None], baseline: Sequence[float | None]) -> SmallChart:
    """Values at even spacing, oldest left, both lines on one linear scale; a missing value is a gap."""
    known = [value for value in (*ours, *baseline) if value is not None]
    if not known:
        return SmallChart(ours="", baseline="", dot=None, across=())
    middle = (max(known) + min(known)) / 2
    span = max(max(known) - min(known), _LEAST_SPAN * abs(middle)) or 1.0
    step = (WIDTH - 2 * _MARGIN) / max(len(ours) - 1, 1)

    def place(index: int, value: float) -> tuple[float, float]:
        up = (value - middle) / span * (HEIGHT - 2 * _MARGIN)
        return round(_MARGIN + index * step, 1), round(HEIGHT / 2 - up, 1)

    def path(values: Sequence[float | None]) -> str:
        pieces = []
        for index, value in enumerate(values):
            if value is not None:
                x, y = place(index, value)
                is_joined = index > 0 and values[index - 1] is not None
                pieces.append(f"{'L' if is_joined else 'M'}{x:g} {y:g}")
        return "".join(pieces)

    newest = next(((n, value) for n, value in reversed(list(enumerate(ours))) if value is not None), None)
    return SmallChart(
        ours=path(ours),
        baseline=path(baseline),
        dot=place(*newest) if newest else None,
        across=tuple(round(_MARGIN + index * step, 1) for index in range(len(ours))),
    )

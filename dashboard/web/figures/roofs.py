"""Roofs of a roofline: datasheet peaks (thin) and measured ceilings (solid)."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from math import log10
from typing import Any

import plotly.graph_objects as go

from ...model import quantities
from ...model.machine import Ceilings, Roofline
from .style import INK, MUTED, plain

_BELOW = 5.0  # times further left than the lowest named ridge, so that the slope's own words stay below that name
_LINE = 0.2 / 6  # of the decades that a figure shows: the height of a line of words


@dataclass(frozen=True, slots=True, kw_only=True)
class Roofs:
    """Roofs to draw; of several GPUs the lowest and the highest ceilings."""

    peaks: Ceilings | None
    measured: tuple[Ceilings, ...]  # none, one, or two: the lowest and the highest

    @property
    def known(self) -> tuple[Ceilings, ...]:
        """All roofs, the datasheet's first."""
        return (*((self.peaks,) if self.peaks else ()), *self.measured)


def roofs_of(roofline: Roofline) -> Roofs:
    measured = [ceilings for _, ceilings in roofline.measured]
    ends = [_end(measured, best) for best in (min, max)] if measured else []
    return Roofs(peaks=roofline.machine.limits.peaks, measured=tuple(ends[:1] if ends[1:] == ends[:1] else ends))


def _end(measured: Sequence[Ceilings], best: Callable[[Iterable[float]], float]) -> Ceilings:
    dtypes = {dtype for each in measured for dtype in each.flops}
    return Ceilings(
        name=measured[0].name,
        source=measured[0].source,
        bandwidth_bps=best(each.bandwidth_bps for each in measured),
        flops={dtype: best(each.flops[dtype] for each in measured if dtype in each.flops) for dtype in dtypes},
    )


def ridges(roofs: Roofs, dtypes: Collection[str]) -> list[float]:
    """Ridge points of every source, in FLOP/byte."""
    return [peak / each.bandwidth_bps for each in roofs.known for peak in _flats(each, dtypes).values()]


def roof_lines(roofs: Roofs, dtypes: Collection[str], left: float, right: float) -> list[go.Scatter]:
    """Memory slope of each source up to its highest ridge, and one ceiling per dtype from its ridge on."""
    lines: list[go.Scatter] = []
    for each in roofs.known:
        flats, bandwidth = _flats(each, dtypes), each.bandwidth_bps
        stroke = {"color": MUTED, "width": 1} if each is roofs.peaks else {"color": INK, "width": 2}
        common: dict[str, Any] = {"mode": "lines", "showlegend": False, "hoverinfo": "skip", "line": stroke}
        top = max(flats.values(), default=right * bandwidth)
        lines.append(go.Scatter(x=[left, top / bandwidth], y=[left * bandwidth, top], **common))
        lines += [go.Scatter(x=[peak / bandwidth, right], y=[peak, peak], **common) for peak in flats.values()]
    return lines


def roof_labels(
    roofs: Roofs, dtypes: Collection[str], left: float, right: float, lowest: float | None = None
) -> list[dict[str, Any]]:
    """Labels of the roofs with their source, above roofs that are close together.

    The highest roofs are named at the right end. Over a lower one there are points of other dtypes, so that its name
    ends where it meets the slope: left of that and above the slope there are none. Annotations on log axes stand at
    the logarithm of their place. `lowest` is the throughput of the lowest point, where that is below the slope's
    beginning.
    """
    sources = [each for each in (() if roofs.peaks is None else (roofs.peaks,), roofs.measured) if each]
    if not sources:
        return []
    sources.sort(key=lambda ends: -ends[-1].bandwidth_bps)
    common = {
        "borderpad": 2,
        "xanchor": "right",
        "yanchor": "bottom",
        "align": "right",
    }
    labels = []
    highest = [_flats(ends[-1], dtypes) for ends in sources]
    slope = sources[0][-1].bandwidth_bps
    groups = _near_each_other(highest, _bottom(sources[0][-1], left, lowest))
    lowest_ridge = right
    for near in groups:
        text = [f"{words} ({ends[0].source})" for ends in sources if (words := _peaks_text(ends, near))]
        top_peak = max(flats[dtype] for flats in highest for dtype in near if dtype in flats)
        end = right if near is groups[-1] else top_peak / slope
        lowest_ridge = min(lowest_ridge, end)
        labels.append({**common, "x": log10(end), "y": log10(top_peak), "text": _lines(text)})
    top, flats = sources[0][-1], highest[0]
    # It ends at three quarters of the slope: further left the slope only falls away from the words.
    place = left**0.25 * (max(flats.values(), default=right * top.bandwidth_bps) / top.bandwidth_bps) ** 0.75
    place = min(place, lowest_ridge / _BELOW)
    text = [
        f"{_range([quantities.quantity(each.bandwidth_bps, 'B/s') for each in ends])} ({ends[0].source})"
        for ends in sources
    ]
    labels.append({**common, "x": log10(place), "y": log10(place * top.bandwidth_bps), "text": _lines(text)})
    return labels


def _flats(ceilings: Ceilings, dtypes: Collection[str]) -> dict[str, float]:
    """The peaks of the dtypes that have points; of all where none has."""
    shown: Sequence[str] = sorted(set(dtypes) & set(ceilings.flops)) or sorted(ceilings.flops)
    return {dtype: ceilings.flops[dtype] for dtype in shown}


def _bottom(ceilings: Ceilings, left: float, lowest: float | None) -> float:
    slope = left * ceilings.bandwidth_bps
    return slope if lowest is None else min(slope, lowest)


def _near_each_other(sources: Sequence[dict[str, float]], bottom: float) -> list[list[str]]:
    """Groups of dtypes whose labels would overlap, the lowest first; the highest peak of a dtype counts.

    A label has a line for each source.
    """
    highest: dict[str, float] = {}
    for flats in sources:
        for dtype, peak in flats.items():
            highest[dtype] = max(peak, highest.get(dtype, 0.0))
    decades = log10(max(highest.values(), default=bottom) / bottom)
    too_near = 10 ** (_LINE * len(sources) * decades)
    groups: list[list[str]] = []
    for dtype in sorted(highest, key=lambda dtype: highest[dtype]):
        if groups and highest[dtype] < too_near * highest[groups[-1][-1]]:
            groups[-1].append(dtype)
        else:
            groups.append([dtype])
    return groups


def _peaks_text(ends: Sequence[Ceilings], near: Sequence[str]) -> str:
    """ "fp16 650 TFLOP/s, bf16 673 TFLOP/s"; of equal ones the value once, of two ends "635 to 661 TFLOP/s"."""
    there = [dtype for dtype in near if dtype in ends[0].flops]
    texts = [_range([quantities.throughput(each.flops[dtype], dtype) for each in ends]) for dtype in there]
    if len(set(texts)) == 1:
        return f"{', '.join(there)} {texts[0]}"
    return ", ".join(f"{dtype} {text}" for dtype, text in zip(there, texts, strict=True))


def _range(texts: Sequence[str]) -> str:
    """One quantity, or from one to the other; the unit once."""
    (low, unit), (high, other) = (text.rsplit(" ", 1) for text in (texts[0], texts[-1]))
    if (low, unit) == (high, other):
        return texts[0]
    return f"{low} to {texts[-1]}" if unit == other else f"{texts[0]} to {texts[-1]}"


def _lines(texts: Sequence[str]) -> str:
    return "<br>".join(plain(text) for text in texts)

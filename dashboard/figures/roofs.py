"""The roofs of a roofline: what a machine's datasheet promises, thin, and what was measured on it, solid."""

from collections.abc import Collection, Sequence
from math import log10
from typing import Any

from warpwatch.dashboard import quantities
from warpwatch.dashboard.figures.layout import plain
from warpwatch.dashboard.figures.palette import INK, MUTED
from warpwatch.dashboard.store.machine_records import Ceilings, Limits

_LINE = 0.2 / 6  # of the decades that a figure shows: the height of a line of words


def ridges(limits: Limits, dtypes: Collection[str]) -> list[float]:
    """Where the slope of memory meets the ceilings of math, in FLOP/byte, for every source."""
    return [peak / each.bandwidth_bps for each in limits.known for peak in _flats(each, dtypes).values()]


def roof_lines(limits: Limits, dtypes: Collection[str], left: float, right: float) -> list[dict[str, Any]]:
    """Each source's slope of memory up to its highest ridge, and one ceiling a dtype from its own ridge on.

    Without any ceiling of math the slope goes on to the right edge.
    """
    lines: list[dict[str, Any]] = []
    for each in limits.known:
        flats, bandwidth = _flats(each, dtypes), each.bandwidth_bps
        stroke = {"color": INK, "width": 2} if each is limits.measured else {"color": MUTED, "width": 1}
        common = {"mode": "lines", "showlegend": False, "hoverinfo": "skip", "line": stroke}
        top = max(flats.values(), default=right * bandwidth)
        lines.append({**common, "x": [left, top / bandwidth], "y": [left * bandwidth, top]})
        lines += [{**common, "x": [peak / bandwidth, right], "y": [peak, peak]} for peak in flats.values()]
    return lines


def roof_labels(
    limits: Limits, dtypes: Collection[str], left: float, right: float, lowest: float | None = None
) -> list[dict[str, Any]]:
    """What each roof is and who says so, above the highest of those near each other: below are the points.

    Annotations on log axes stand at the logarithm of their place. `lowest` is the throughput of the lowest point, where
    that is below the slope's beginning.
    """
    sources = [(each, _flats(each, dtypes)) for each in sorted(limits.known, key=lambda each: -each.bandwidth_bps)]
    if not sources:
        return []
    common = {"showarrow": False, "font": {"color": MUTED, "size": 11}, "borderpad": 2, "xanchor": "right",
              "yanchor": "bottom", "align": "right"}  # fmt: skip
    labels = []
    for near in _near_each_other([flats for _, flats in sources], _bottom(sources[0][0], left, lowest)):
        said = [(each, {dtype: flats[dtype] for dtype in near if dtype in flats}) for each, flats in sources]
        text = [f"{_peaks_text(peaks)} ({each.source})" for each, peaks in said if peaks]
        highest = max(peak for _, peaks in said for peak in peaks.values())
        labels.append({**common, "x": log10(right), "y": log10(highest), "text": _lines(text)})
    top, flats = sources[0]
    # It ends at three quarters of the slope: further left the slope only falls away from the words.
    place = left**0.25 * (max(flats.values(), default=right * top.bandwidth_bps) / top.bandwidth_bps) ** 0.75
    text = [f"{quantities.quantity(each.bandwidth_bps, 'B/s')} ({each.source})" for each, _ in sources]
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
    """dtypes in groups whose labels would lie on each other, the lowest first; of each its highest peak counts.

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


def _peaks_text(near: dict[str, float]) -> str:
    """ "fp16 650 TFLOP/s, bf16 673 TFLOP/s"; of equal ones the value once."""
    texts = [quantities.throughput(peak, dtype) for dtype, peak in near.items()]
    if len(set(texts)) == 1:
        return f"{', '.join(near)} {texts[0]}"
    return ", ".join(f"{dtype} {text}" for dtype, text in zip(near, texts, strict=True))


def _lines(texts: Sequence[str]) -> str:
    return "<br>".join(plain(text) for text in texts)

"""The roofs of a roofline: what a machine's datasheet promises, thin, and what was measured on it, solid."""

from collections.abc import Collection, Sequence
from math import log10
from typing import Any

from warpwatch.dashboard import quantities
from warpwatch.dashboard.figures.layout import plain
from warpwatch.dashboard.figures.palette import INK, MUTED
from warpwatch.dashboard.store.machine_records import Ceilings, Limits

_TOO_NEAR = 1.6  # ratio of peaks below which a figure of six decades has no room for two lines of words


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


def roof_labels(limits: Limits, dtypes: Collection[str], left: float, right: float) -> list[dict[str, Any]]:
    """What each roof is and who says so: above the highest source's lines, below the other's."""
    sources = sorted(limits.known, key=lambda each: -each.bandwidth_bps)
    labels: list[dict[str, Any]] = []
    for number, each in enumerate(sources):
        labels += _labels(each, _flats(each, dtypes), left, right, above=number == 0)
    return labels


def _flats(ceilings: Ceilings, dtypes: Collection[str]) -> dict[str, float]:
    """The peaks of the dtypes that have points; of all where none has."""
    shown: Sequence[str] = sorted(set(dtypes) & set(ceilings.flops)) or sorted(ceilings.flops)
    return {dtype: ceilings.flops[dtype] for dtype in shown}


def _near_each_other(flats: dict[str, float]) -> list[dict[str, float]]:
    """Peaks in groups whose labels would lie on each other."""
    groups: list[dict[str, float]] = []
    for dtype, peak in sorted(flats.items(), key=lambda flat: flat[1]):
        if groups and peak < _TOO_NEAR * min(groups[-1].values()):
            groups[-1][dtype] = peak
        else:
            groups.append({dtype: peak})
    return groups


def _peaks_text(near: dict[str, float]) -> str:
    """ "fp16 650 TFLOP/s, bf16 673 TFLOP/s"; of equal ones the value once."""
    texts = [quantities.quantity(peak, "FLOP/s") for peak in near.values()]
    if len(set(texts)) == 1:
        return f"{', '.join(near)} {texts[0]}"
    return ", ".join(f"{dtype} {text}" for dtype, text in zip(near, texts, strict=True))


def _labels(
    ceilings: Ceilings, flats: dict[str, float], left: float, right: float, *, above: bool
) -> list[dict[str, Any]]:
    """Annotations on log axes stand at the logarithm of their place."""
    bandwidth = ceilings.bandwidth_bps
    common = {"showarrow": False, "font": {"color": MUTED, "size": 11}, "borderpad": 2}
    side = "bottom" if above else "top"
    labels = [
        {**common, "x": log10(right), "y": log10((max if above else min)(near.values())), "xanchor": "right",
         "yanchor": side, "text": plain(f"{_peaks_text(near)} ({ceilings.source})")}
        for near in _near_each_other(flats)
    ]  # fmt: skip
    # Above the slope it ends at three quarters of it: further left the slope only falls away from the words. Below, it
    # begins there.
    ridge = max(flats.values(), default=right * bandwidth) / bandwidth
    place = left**0.25 * ridge**0.75
    labels.append(
        {**common, "x": log10(place), "y": log10(place * bandwidth), "xanchor": "right" if above else "left",
         "yanchor": side, "text": plain(f"{quantities.quantity(bandwidth, 'B/s')} ({ceilings.source})")}
    )  # fmt: skip
    return labels

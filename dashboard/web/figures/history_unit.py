"""Unit of a history's vertical axis: as recorded, per cent of the first value, or relative to a baseline."""

from dataclasses import dataclass
from statistics import median

from ...model import quantities
from ...model.history import History, OtherHistory, ShownHistory
from .history_view import PERCENT, Transform, by_commit
from .palette import look


@dataclass(frozen=True, slots=True, kw_only=True)
class AxisUnit:
    """Title of the axis, and the transform from recorded to displayed values."""

    title: str
    transform: Transform
    typical: float | None  # displayed value in the middle; None without values
    is_percent: bool = False


def baselines_of(history: History) -> tuple[OtherHistory, ...]:
    """The baselines that the series can be shown relative to."""
    unit = history.series.metric.unit
    return tuple(
        other
        for other in history.others
        if other.series.is_baseline and other.series.metric.unit == unit and by_commit(other.points)
    )


def axis_unit(shown: ShownHistory, wanted: str) -> AxisUnit:
    """The unit of `wanted`: "percent", the name of a baseline, else as recorded."""
    history = shown.history
    metric = history.series.metric
    baseline = next((one for one in baselines_of(history) if one.series.implementation == wanted), None)
    own = by_commit(shown.points_inside) or by_commit(history.points)
    if baseline is not None:
        divisor = {commit.hash: value for commit, value in by_commit(baseline.points) if value > 0}
        transform = Transform(divisor=divisor, is_inverse=metric.is_time)
        ratios = [y for commit, value in own if (y := transform(value, commit)) is not None]
        word = "speedup over" if metric.is_time else f"{metric.label} relative to"
        return AxisUnit(
            title=f"{word} {look(wanted).label} (×)",
            transform=transform,
            typical=median(ratios) if ratios else None,
        )
    if wanted == PERCENT and own and own[0][1] > 0:
        first = own[0][1]
        return AxisUnit(
            title=f"{metric.label} relative to {own[0][0].hash[:8]} (%)",
            transform=Transform(factor=100 / first, offset=-100.0),
            typical=0.0,
            is_percent=True,
        )
    typical = typical_value(history)
    factor, unit = quantities.axis_unit(1.0 if typical is None else typical, metric.unit)
    return AxisUnit(
        title=f"{metric.label} ({unit})" if unit not in {"", "unit"} else metric.label,
        transform=Transform(factor=factor),
        typical=None if typical is None else typical * factor,
    )


def typical_value(history: History) -> float | None:
    """The median of the series' values, else of the first other implementation with any."""
    lines = (history.points, *(other.points for other in history.others))
    values = next(filter(None, ([p.value for p in points if p.value is not None] for points in lines)), [])
    return median(values) if values else None

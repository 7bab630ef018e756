"""Figures of a machine: clock, temperature, throttling and canaries over time; smallest detectable changes."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
import plotly.graph_objects as go

from ...analysis.trust import RUNS, Detectable
from ...model import quantities
from ...model.naming import canary_name, gpu_name
from ...store.column_records import RunConditions, SeriesRuns
from .hover import SHOW_TEXT
from .style import BLUE, CANARIES, GREEN, INK, MUTED, ORANGE, WORSE, date_axis, figure, label, plain

_CLOCK, _HEAT, _THROTTLED = BLUE, ORANGE, WORSE
_RUN_LOOKS = ((BLUE, "solid"), (ORANGE, "dash"), (GREEN, "dot"))
_SHARES = np.linspace(0.0, 1.0, 51)
MAX_CHANGE = 9.0  # relative; larger changes are shown as "> 10×"
_MIN_SPAN = 1.0  # per cent, so that noise does not fill the strip


def conditions_figure(runs: Sequence[RunConditions], canaries: Sequence[SeriesRuns]) -> go.Figure | None:
    """Strips over time; None without data."""
    clocked = [run for run in runs if run.started_at and run.clock_hz]
    heated = [run for run in runs if run.started_at and run.temperature_c is not None]
    timed = [run for run in runs if run.started_at and run.knows_throttling]
    in_order = sorted(canaries, key=lambda one: one.series.workload or "")  # as on a series' page
    lines = [line for number, one in enumerate(in_order) if (line := _canary(one, number)) is not None]
    strips: list[tuple[str, list[go.Scatter], dict[str, Any]]] = [
        ("SM clock (MHz)", _clock(clocked), {}),
        ("temperature (°C), median and highest", _heat(heated), {}),
        (
            "throttled while measuring (ms)",
            _throttling(timed),
            {"rangemode": "tozero", "autorangeoptions": {"include": [0, 1]}},
        ),
        ("canaries (% from their median)", lines, {"autorangeoptions": {"include": [-_MIN_SPAN, _MIN_SPAN]}}),
    ]
    strips = [strip for strip in strips if strip[1]]
    if not strips:
        return None
    height = 1 / len(strips)
    data, axes, labels = [], {}, []
    for number, (title, traces, axis) in enumerate(strips, start=1):
        data += [trace.update(yaxis=f"y{number}") for trace in traces]
        foot = 1 - number * height
        axes[f"yaxis{number}"] = {
            "domain": [foot + height * 0.24, foot + height * 0.86],
            "nticks": 4,
            "fixedrange": True,
            **axis,
        }
        labels.append(label(title, 0, foot + height * 0.87, font={"size": 12, "color": INK}))
    return figure(
        data,
        showlegend=bool(lines),
        legend={"yref": "container", "y": 0},  # of the canaries; below the axis, where a phone has room for it
        annotations=labels,
        xaxis=date_axis(anchor=f"y{len(strips)}"),
        margin={"l": 52, "r": 14, "t": 6, "b": 64 if lines else 40},
        **axes,
    )


def _at(moment: datetime | None) -> str:
    return moment.isoformat() if moment is not None else ""


def _text(run: RunConditions, *lines: str) -> str:
    gpu = gpu_name(run.gpu) if run.gpu else ""
    facts = [f"{run.started_at:%Y-%m-%d %H:%M} UTC", *lines, gpu, f"{run.measurements} measurements"]
    return "<br>".join(plain(fact) for fact in facts if fact)


def _clock(runs: Sequence[RunConditions]) -> list[go.Scatter]:
    middle = [(run.clock_hz or 0.0) / 1e6 for run in runs]
    error = {
        "type": "data",
        "symmetric": False,
        "thickness": 1,
        "width": 2,
        "color": MUTED,
        "array": [(run.clock_high_hz or 0.0) / 1e6 - y for run, y in zip(runs, middle, strict=True)],
        "arrayminus": [y - (run.clock_low_hz or 0.0) / 1e6 for run, y in zip(runs, middle, strict=True)],
    }
    text = [
        _text(
            run,
            f"SM clock {quantities.quantity(run.clock_hz, 'Hz')}",
            f"{quantities.quantity(run.clock_low_hz, 'Hz')} to {quantities.quantity(run.clock_high_hz, 'Hz')}",
        )
        for run in runs
    ]
    return _marks("SM clock", runs, middle, text, {"color": _CLOCK}, error_y=error)


def _heat(runs: Sequence[RunConditions]) -> list[go.Scatter]:
    text = [_text(run, f"{run.temperature_c:g} °C, at most {run.temperature_high_c:g} °C") for run in runs]
    highest = {"color": _HEAT, "symbol": "triangle-up-open"}
    return [
        *_marks("median", runs, [run.temperature_c for run in runs], text, {"color": _HEAT}),
        *_marks("highest", runs, [run.temperature_high_c for run in runs], text, highest),
    ]


def _throttling(runs: Sequence[RunConditions]) -> list[go.Scatter]:
    text = [
        _text(
            run,
            f"{run.throttled} measurements throttled",
            *(f"{name} {quantities.quantity(seconds, 's')}" for name, seconds in run.throttled_s.items()),
        )
        for run in runs
    ]
    milliseconds = [1e3 * sum(run.throttled_s.values()) for run in runs]
    return _marks("throttled", runs, milliseconds, text, {"color": _THROTTLED, "symbol": "x"})


def _marks(
    name: str,
    runs: Sequence[RunConditions],
    values: Sequence[float | None],
    text: Sequence[str],
    marker: dict[str, Any],
    **more: Any,
) -> list[go.Scatter]:
    """One marker per run; no trace without runs."""
    if not runs:
        return []
    x = [_at(run.started_at) for run in runs]
    marker = {"size": 6, **marker}
    return [
        go.Scatter(
            mode="markers",
            name=name,
            showlegend=False,
            x=x,
            y=values,
            hovertemplate=SHOW_TEXT,
            text=text,
            marker=marker,
            **more,
        )
    ]


def _canary(runs: SeriesRuns, number: int) -> go.Scatter | None:
    known = runs.started_ms >= 0
    if not known.any():
        return None
    middle = float(np.median(runs.value))
    name = canary_name(runs.series.workload or runs.series.title)
    order = np.argsort(runs.started_ms[known], kind="stable")
    at, values = runs.started_ms[known][order].tolist(), runs.value[known][order].tolist()
    colour, dash, symbol = CANARIES[number % len(CANARIES)]
    moments = [datetime.fromtimestamp(each / 1000, UTC) for each in at]
    return go.Scatter(
        mode="lines+markers",
        name=plain(f"canary {name}"),
        showlegend=True,
        x=[_at(each) for each in moments],
        y=[100 * (value / middle - 1) for value in values],
        line={"color": colour, "width": 1, "dash": dash},
        marker={"color": colour, "size": 5, "symbol": symbol},
        hovertemplate=SHOW_TEXT,
        text=[
            plain(f"canary {name}: {quantities.quantity(value, runs.series.metric.unit)}")
            + f"<br>{quantities.change(value / middle - 1)}<br>{moment:%Y-%m-%d %H:%M} UTC"
            for value, moment in zip(values, moments, strict=True)
        ],
    )


def detectable_figure(series: Sequence[Detectable]) -> go.Figure:
    """Smallest detectable change by share of the series, one line per number of runs."""
    traces: list[go.Scatter] = []
    for place, runs in enumerate(RUNS):
        changes = np.quantile([min(row.changes[place], MAX_CHANGE) for row in series], _SHARES)
        colour, dash = _RUN_LOOKS[place]
        side = f"{runs} run{'s' if runs > 1 else ''} of each commit"
        traces.append(
            go.Scatter(
                mode="lines+markers",
                name=side,
                x=(100 * _SHARES).tolist(),
                y=(100 * changes).tolist(),
                line={"color": colour, "width": 1.6, "dash": dash},
                marker={"color": colour, "size": 3},
                hovertemplate=SHOW_TEXT,
                text=[
                    f"{share:.0%} of the series: {100 * change:.2g} % or less<br>{side}"
                    for share, change in zip(_SHARES.tolist(), changes.tolist(), strict=True)
                ],
            )
        )
    return figure(
        traces,
        xaxis={"title_text": "share of the series (%)", "range": [0, 100]},
        yaxis={"title_text": "smallest detectable change (%)", "type": "log", "tickformat": "~g", "dtick": "D2"},
    )

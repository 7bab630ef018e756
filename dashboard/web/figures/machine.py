"""A machine over time: clock, heat and throttling run by run, canaries below; and how small a change would be told."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np

from ...analysis.trust import RUNS, Detectable
from ...model import quantities
from ...model.naming import canary_name, card_name
from ...store.column_records import RunConditions, SeriesRuns
from .layout import axis, date_axis, layout, plain
from .palette import CANARIES, GRID, INK, MUTED

_CLOCK, _HEAT, _HELD = "--ww-blue", "--ww-orange", "--ww-vermillion"
_RUN_LOOKS = (("--ww-blue", "solid"), ("--ww-orange", "dash"), ("--ww-green", "dot"))
_SHARES = np.linspace(0.0, 1.0, 51)
MOST_TOLD = 9.0  # tenfold: what wants more is not told at all
_LEAST_SPAN = 1.0  # per cent either way, so that noise does not fill the strip


def conditions_figure(runs: Sequence[RunConditions], canaries: Sequence[SeriesRuns]) -> dict[str, Any] | None:
    """Strips over the time of the runs, each with what there is to show; None where nothing was noted."""
    strips: list[tuple[str, list[dict[str, Any]], dict[str, Any]]] = []
    clocked = [run for run in runs if run.started_at and run.clock_hz]
    if clocked:
        strips.append(("SM clock (MHz)", [_clock(clocked)], {}))
    heated = [run for run in runs if run.started_at and run.temperature_c is not None]
    if heated:
        strips.append(("temperature (°C), median and highest", _heat(heated), {}))
    timed = [run for run in runs if run.started_at and run.knows_throttling]
    if timed:
        strips.append(
            (
                "clock held back while measuring (ms)",
                [_held(timed)],
                {"rangemode": "tozero", "autorangeoptions": {"include": [0, 1]}},
            )
        )
    in_order = sorted(canaries, key=lambda one: one.series.workload or "")  # as beside a series: one look on both pages
    lines = [line for number, one in enumerate(in_order) if (line := _canary(one, number)) is not None]
    if lines:
        include = {"autorangeoptions": {"include": [-_LEAST_SPAN, _LEAST_SPAN]}}
        strips.append(("canaries (% from their own median)", lines, include))
    if not strips:
        return None
    height = 1 / len(strips)
    data, axes, labels = [], {}, []
    for number, (label, traces, more) in enumerate(strips):
        top = 1 - number * height
        name = "" if number == 0 else str(number + 1)
        data += [{**trace, "yaxis": f"y{name}"} for trace in traces]
        domain = [top - height * 0.76, top - height * 0.14]
        axes[f"yaxis{name}"] = axis("", domain=domain, nticks=4, fixedrange=True, **more)
        labels.append(
            {
                "text": label,
                "x": 0,
                "xanchor": "left",
                "xref": "paper",
                "y": top - height * 0.13,
                "yanchor": "bottom",
                "yref": "paper",
                "showarrow": False,
                "font": {"size": 12, "color": INK},
            }
        )
    last = f"y{len(strips)}" if len(strips) > 1 else "y"
    if lines:  # the last strip; its key stands over it, at the right
        axes["legend"] = {
            "orientation": "h",
            "x": 1,
            "xanchor": "right",
            "y": 0.87 * height,
            "yanchor": "bottom",
            "bgcolor": "rgba(0,0,0,0)",
            "font": {"color": INK, "size": 12},
        }
    return {
        "data": data,
        "layout": layout(
            hovermode="closest",
            showlegend=bool(lines),
            annotations=labels,
            xaxis=date_axis(anchor=last),
            margin={"l": 52, "r": 14, "t": 6, "b": 40},
            **axes,
        ),
    }


def _at(moment: datetime | None) -> str:
    return moment.isoformat() if moment is not None else ""


def _text(run: RunConditions, *said: str) -> str:
    card = card_name(run.card) if run.card else ""
    facts = [f"{run.started_at:%Y-%m-%d %H:%M} UTC", *said, card, f"{run.measurements} measurements"]
    return "<br>".join(plain(fact) for fact in facts if fact)


def _clock(runs: Sequence[RunConditions]) -> dict[str, Any]:
    middle = [(run.clock_hz or 0.0) / 1e6 for run in runs]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "SM clock",
        "showlegend": False,
        "x": [_at(run.started_at) for run in runs],
        "y": middle,
        "error_y": {
            "type": "data",
            "symmetric": False,
            "thickness": 1,
            "width": 2,
            "color": MUTED,
            "array": [(run.clock_high_hz or 0.0) / 1e6 - y for run, y in zip(runs, middle, strict=True)],
            "arrayminus": [y - (run.clock_low_hz or 0.0) / 1e6 for run, y in zip(runs, middle, strict=True)],
        },
        "marker": {"color": _CLOCK, "size": 6},
        "hovertemplate": "%{text}<extra></extra>",
        "text": [
            _text(
                run,
                f"SM clock {quantities.quantity(run.clock_hz, 'Hz')}",
                f"{quantities.quantity(run.clock_low_hz, 'Hz')} to {quantities.quantity(run.clock_high_hz, 'Hz')}",
            )
            for run in runs
        ],
    }


def _heat(runs: Sequence[RunConditions]) -> list[dict[str, Any]]:
    x = [_at(run.started_at) for run in runs]
    said = [_text(run, f"{run.temperature_c:g} °C, at most {run.temperature_high_c:g} °C") for run in runs]
    common: dict[str, Any] = {
        "type": "scatter",
        "mode": "markers",
        "showlegend": False,
        "x": x,
        "text": said,
        "hovertemplate": "%{text}<extra></extra>",
    }
    return [
        {**common, "name": "median", "y": [run.temperature_c for run in runs], "marker": {"color": _HEAT, "size": 6}},
        {
            **common,
            "name": "highest",
            "y": [run.temperature_high_c for run in runs],
            "marker": {"color": _HEAT, "size": 6, "symbol": "triangle-up-open"},
        },
    ]


def _held(runs: Sequence[RunConditions]) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "held back",
        "showlegend": False,
        "x": [_at(run.started_at) for run in runs],
        "y": [1e3 * sum(run.throttled_s.values()) for run in runs],
        "marker": {"color": _HELD, "size": 6, "symbol": "x"},
        "hovertemplate": "%{text}<extra></extra>",
        "text": [
            _text(
                run,
                f"{run.throttled} measurements held back",
                *(f"{name} {quantities.quantity(seconds, 's')}" for name, seconds in run.throttled_s.items()),
            )
            for run in runs
        ],
    }


def _canary(runs: SeriesRuns, number: int) -> dict[str, Any] | None:
    known = runs.started_ms >= 0
    if not known.any():
        return None
    middle = float(np.median(runs.value))
    name = canary_name(runs.series.workload or runs.series.title)
    order = np.argsort(runs.started_ms[known], kind="stable")
    at, values = runs.started_ms[known][order].tolist(), runs.value[known][order].tolist()
    colour, dash, symbol = CANARIES[number % len(CANARIES)]
    moments = [datetime.fromtimestamp(each / 1000, UTC) for each in at]
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": plain(f"canary {name}"),
        "showlegend": True,
        "x": [_at(each) for each in moments],
        "y": [100 * (value / middle - 1) for value in values],
        "line": {"color": colour, "width": 1, "dash": dash},
        "marker": {"color": colour, "size": 5, "symbol": symbol},
        "hovertemplate": "%{text}<extra></extra>",
        "text": [
            plain(f"canary {name}: {quantities.quantity(value, runs.series.metric.unit)}")
            + f"<br>{quantities.change(value / middle - 1)}<br>{moment:%Y-%m-%d %H:%M} UTC"
            for value, moment in zip(values, moments, strict=True)
        ],
    }


def detectable_figure(told: Sequence[Detectable]) -> dict[str, Any]:
    """Share of the series across, smallest change up: one line for each number of runs a side."""
    traces: list[dict[str, Any]] = []
    for place, runs in enumerate(RUNS):
        changes = np.quantile([min(one.changes[place], MOST_TOLD) for one in told], _SHARES)
        colour, dash = _RUN_LOOKS[place]
        side = f"{runs} run{'s' if runs > 1 else ''} of each commit"
        traces.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": side,
                "x": (100 * _SHARES).tolist(),
                "y": (100 * changes).tolist(),
                "line": {"color": colour, "width": 1.6, "dash": dash},
                "marker": {"color": colour, "size": 3},
                "hovertemplate": "%{text}<extra></extra>",
                "text": [
                    f"{share:.0%} of the series: {100 * change:.2g} % or less<br>{side}"
                    for share, change in zip(_SHARES.tolist(), changes.tolist(), strict=True)
                ],
            }
        )
    return {
        "data": traces,
        "layout": layout(
            hovermode="closest",
            xaxis=axis("share of the series (%)", range=[0, 100], gridcolor=GRID),
            yaxis=axis("smallest change told (%)", type="log", tickformat="~g", dtick="D2"),
        ),
    }

"""A one-off benchmark's result as a table for people."""

import io
import statistics
from collections.abc import Callable

from ..quantity_text import quantity, share
from ..records import MeasurementRecord, Status
from .result import BenchmarkResult, Figures

_WIDEST = 200  # columns are as wide as what stands in them; nothing is cut

# Heading, and what stands under it; a column in which nothing does is left out.
_Cell = Callable[[MeasurementRecord, Figures], str | None]
_COLUMNS: dict[str, _Cell] = {
    "latency": lambda m, f: _text(m.latency_s, lambda s: quantity(s, "s")),
    "spread": lambda m, f: _text(f.spread, share),
    "warm": lambda m, f: _text(m.warm_latency_s, lambda s: quantity(s, "s")),
    "steady": lambda m, f: _text(m.steady_latency_s, lambda s: quantity(s, "s")),
    "bandwidth": lambda m, f: _text(f.bandwidth_bps, lambda rate: quantity(rate, "B/s")),
    "throughput": lambda m, f: _text(f.flops_per_s, lambda rate: quantity(rate, "FLOP/s")),
    "of peak": lambda m, f: _text(f.of_peak, share),
    "of measured": lambda m, f: _text(f.of_measured, share),
    "vs {baseline}": lambda m, f: _text(f.speedup, lambda ratio: f"{ratio:.2f}x"),
    "energy": lambda m, f: _text(_energy_j(m), lambda joules: quantity(joules, "J")),
    "memory": lambda m, f: _text(m.peak_memory_bytes, lambda size: f"{size / 2**20:.1f} MiB"),
    "kernels": lambda m, f: _text(m.kernels_launched, str),
    "error": lambda m, f: _text(m.relative_error, lambda error: f"{error:.1e}"),
    "by": lambda m, f: m.backend,
}


def table(result: BenchmarkResult) -> str:
    """Heading, a row an implementation, and below them what a reader has to know of them."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    rows = [(m, f) for m, f in result if m.latency_s is not None]
    best = result.best_baseline
    drawn = Table(box=box.SIMPLE_HEAD)
    drawn.add_column("implementation")
    columns = {title: [cell(m, f) for m, f in rows] for title, cell in _COLUMNS.items()}
    filled = {title: cells for title, cells in columns.items() if any(cells)}
    for title in filled:
        drawn.add_column(title.format(baseline=best.implementation if best else ""), justify="right", no_wrap=True)
    for index, (measurement, _) in enumerate(rows):
        drawn.add_row(measurement.implementation, *(cells[index] or "-" for cells in filled.values()))
    out = io.StringIO()
    console = Console(file=out, width=_WIDEST, color_system=None, highlight=False, markup=False)
    console.print(_heading(result))
    if rows:
        console.print(drawn)
    for line in _remarks(result, filled):
        console.print(line, soft_wrap=True)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def _heading(result: BenchmarkResult) -> str:
    run, measured = result.run, [outcome.measurement for outcome in result.outcomes]
    machine = run.gpu.name if run.gpu else f"{run.cpu.model}, {run.cpu.threads} thread"
    facts = [machine, f"torch {run.software.get('torch', 'unknown')}"]
    facts += sorted({f"{m.cache} cache, {m.timer}" for m in measured if m.timer})
    return f"{result.workload.operator} {result.workload.name}\n{'; '.join(facts)}"


def _remarks(result: BenchmarkResult, filled: dict[str, list[str | None]]) -> list[str]:
    lines = [
        f"{m.implementation}: {m.status}: {m.reason}"
        for m, _ in result
        if m.status is not Status.OK or m.inaccuracy is not None
    ]
    if any(m.latency_s is not None and m.relative_error is None for m, _ in result):
        lines.append("no correctness gate: no reference is known")
    for outcome in result.controls:
        visits = [visit.latency_s for visit in outcome.measurement.visits]
        if len(visits) > 1:
            drift = max(visits) / min(visits) - 1
            lines.append(f"control {outcome.measurement.workload}: moved by {share(drift)} in the course of the run")
    if "spread" in filled:
        lines.append("spread: interquartile range over the median of the samples")
    ceilings = result.run.ceilings
    if "of peak" in filled and ceilings is not None:
        lines.append(f"of peak: of the speed of light by the data sheet ({ceilings.note})")
    elif result.run.gpu is not None and ceilings is None:
        lines.append(f"of peak: not known, for machines.py has no {result.run.gpu.name}")
    if "of measured" in filled and result.run.measured_ceilings is not None:
        lines.append(f"of measured: by the ceilings calibrated here ({result.run.measured_ceilings.measured_at})")
    elif result.run.gpu is not None:
        lines.append("of measured: not known; `warpbench calibrate` measures this GPU's ceilings")
    return lines


def _energy_j(measurement: MeasurementRecord) -> float | None:
    return statistics.median(measurement.energy.per_call_j) if measurement.energy else None


def _text(value: float | None, written: Callable[[float], str]) -> str | None:
    return None if value is None else written(value)

"""One-off results as a file.

JSON: an object of `schema` (2) and `results`, an object for each case: `run`, `workload`, `measurements` and
`controls`. `run` and `workload` are lines of a context file as records.py defines them; a measurement is its line with
`samples_s`, `warm_samples_s` and `calls_per_sample` added, as worker and session exchange it, and `figures`, the fields
of result.Figures. `controls` are measurements too. CSV: a row for each implementation; a figure that does not exist is
empty.
"""

import csv
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..protocol import outcome_to_line
from ..records import to_line
from ..workload import workload_record
from .ad_hoc import BadRequestError
from .result import BenchmarkResult

_SCHEMA = 2
_MEASURED = (
    "implementation",
    "status",
    "reason",
    "latency_s",
    "warm_latency_s",
    "sample_count",
    "sm_cycles",
    "kernels_launched",
    "peak_memory_bytes",
    "relative_error",
    "tolerance",
    "backend",
    "cache",
    "timer",
    "seed",
    "temperature_c",
    "inaccuracy",
    "steady_latency_s",
    "steady_reason",
)


def check_suffix(path: Path) -> None:
    """Raises BadRequestError for a suffix that is neither .json nor .csv."""
    if path.suffix.lower() not in (".json", ".csv"):
        raise BadRequestError(f"a result is exported as .json or .csv, not as {path.name!r}")


def export(results: Sequence[BenchmarkResult], path: Path) -> Path:
    """Write results to `path`, whose folder must exist, in the format of its suffix. Raises BadRequestError."""
    check_suffix(path)
    if path.suffix.lower() == ".csv":
        path.write_text(_csv(results), newline="")
    else:
        content = {"schema": _SCHEMA, "results": [_object(result) for result in results]}
        path.write_text(json.dumps(content, indent=1, allow_nan=False) + "\n", newline="")
    return path


def _object(result: BenchmarkResult) -> dict[str, Any]:
    workload = workload_record(result.run.run, result.outcomes[0].measurement.benchmark, result.workload)
    return {
        "run": json.loads(to_line(result.run)),
        "workload": json.loads(to_line(workload)),
        "measurements": [
            {**json.loads(outcome_to_line(outcome)), "figures": asdict(result.figures(outcome))}
            for outcome in result.outcomes
        ],
        "controls": [json.loads(outcome_to_line(outcome)) for outcome in result.controls],
    }


def _csv(results: Sequence[BenchmarkResult]) -> str:
    rows = [row for result in results for row in _rows(result)]
    columns = dict.fromkeys(column for row in rows for column in row)  # cases may differ in the names of their shapes
    out = io.StringIO()
    writer = csv.DictWriter(out, fieldnames=list(columns), restval="")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def _rows(result: BenchmarkResult) -> Iterator[dict[str, Any]]:
    run, workload = result.run, result.workload
    common: dict[str, Any] = {
        "operator": workload.operator,
        "workload": workload.name,
        "dtype": workload.dtype,
        **workload.parameters,
        "flops": workload.cost.flops,
        "bytes": workload.cost.bytes,
        "machine": run.gpu.name if run.gpu else run.cpu.model,
        "gpu_uuid": run.gpu.uuid if run.gpu else None,
        "started_at": run.started_at,
        "torch": run.software.get("torch"),
    }
    for measurement, figures in result:
        yield {**common, **{name: getattr(measurement, name) for name in _MEASURED}, **asdict(figures)}

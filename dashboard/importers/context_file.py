"""The context beside an asv result: `<commit>-<environment>.context.jsonl`, schema 1, one JSON record a line.

Append-only, written while the suite runs; a last line without its end is one still being written, and is left alone.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from warpwatch.dashboard.store.incoming import Context, ContextMeasurement, ContextRun

SCHEMA = 1


def read_context(text: bytes) -> Context:
    """Reads a context file's text. Lines that cannot be understood are named in `problems` and left out."""
    runs: dict[str, ContextRun] = {}
    workloads, measurements, compiled, problems = [], [], [], []
    for number, line in enumerate(text.splitlines(keepends=True), start=1):
        if not line.endswith(b"\n") or not line.strip():
            continue
        try:
            record = json.loads(line, parse_constant=lambda _: None)  # a bare NaN is no number to anybody
            kind = record["record"]
            if kind == "run":
                run = _run(record)
                runs[run.name] = run
            elif kind == "workload":
                missing = _WORKLOAD_KEYS - record.keys()
                if missing:
                    raise ValueError(f"a workload without {', '.join(sorted(missing))}")
                workloads.append(record)
            elif kind == "measurement":
                measurements.append(_measurement(record, runs[record["run"]]))
            elif kind == "compiled":
                compiled.append((runs[record["run"]], record))
        except (KeyError, TypeError, ValueError) as error:
            said = f"no {error}" if isinstance(error, KeyError) else str(error)
            problems.append(f"line {number}: {said}")
    return Context(
        runs=runs,
        workloads=tuple(workloads),
        measurements=tuple(measurements),
        compiled=tuple(compiled),
        problems=tuple(problems),
    )


_WORKLOAD_KEYS = {"benchmark", "operator", "workload", "parameters", "dtype", "flops", "bytes", "kernels", "baselines"}
_STATUSES = {"ok", "invalid", "failed", "unavailable"}


def _run(record: Mapping[str, Any]) -> ContextRun:
    if record.get("schema") != SCHEMA:
        raise ValueError(f"schema {record.get('schema')!r}; this version reads {SCHEMA}")
    started = datetime.fromisoformat(record["started_at"])
    if started.tzinfo is None:
        started = started.replace(tzinfo=UTC)
    data = {key: value for key, value in record.items() if key not in {"record", "schema"}}
    return ContextRun(
        name=record["run"], commit=record["commit"], started_ms=int(started.timestamp() * 1000), data=data
    )


def _measurement(record: Mapping[str, Any], run: ContextRun) -> ContextMeasurement:
    if record["status"] not in _STATUSES:
        raise ValueError(f"status {record['status']!r}; wanted one of {', '.join(sorted(_STATUSES))}")
    apart = {"record", "run", "benchmark", "workload", "implementation"}
    return ContextMeasurement(
        run=run,
        benchmark=record["benchmark"],
        workload=record["workload"],
        implementation=record["implementation"],
        status=record["status"],
        reason=record.get("reason"),
        latency_s=record.get("latency_s"),
        sample_count=record.get("sample_count"),
        data={key: value for key, value in record.items() if key not in apart},
    )

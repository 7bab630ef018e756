"""Context file of an asv result: `<commit>-<environment>.context.jsonl`, schema 1, one JSON record per line.

The suite appends to it while it runs; an unfinished last line is skipped.
"""

import io
import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from ..model.result_file import Context, ContextMeasurement, ContextProfile, ContextRun
from ..model.series import Status
from .asv import some_problems
from .import_limits import CONTEXT_RECORDS
from .input_files import BeyondLimitError, check_memory

SCHEMA = 1


def read_context(text: bytes) -> Context:
    """Read a context file's text. Malformed lines are left out and named in `problems`.

    Raises BeyondLimitError.
    """
    runs: dict[str, ContextRun] = {}
    workloads, measurements, profiles, compiled, problems = [], [], [], [], []
    check_memory(text)
    if text.count(b"\n") > CONTEXT_RECORDS:
        raise BeyondLimitError(f"a context of more than {CONTEXT_RECORDS:,} records, the limit of one file")
    for number, line in enumerate(io.BytesIO(text), start=1):
        if not line.endswith(b"\n") or not line.strip():
            continue
        try:
            record = json.loads(line, parse_constant=lambda _: None)  # a bare NaN is not JSON
            kind = record["record"]
            if kind == "run":
                run = _run(record)
                runs[run.name] = run
            elif kind == "workload":
                _require(record, _WORKLOAD_KEYS)
                workloads.append(record)
            elif kind == "measurement":
                measurements.append(_measurement(record, runs[record["run"]]))
            elif kind == "profile":
                profiles.append(_profile(record, runs[record["run"]]))
            elif kind == "compiled":
                compiled.append((runs[record["run"]], record))
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
            reason = f"no {error}" if isinstance(error, KeyError) else str(error)
            problems.append(f"line {number}: {reason[:500]}")
    return Context(
        runs=runs,
        workloads=tuple(workloads),
        measurements=tuple(measurements),
        profiles=tuple(profiles),
        compiled=tuple(compiled),
        problems=some_problems(problems),
    )


_WORKLOAD_KEYS = {"benchmark", "operator", "workload", "parameters", "dtype", "flops", "bytes", "kernels", "baselines"}
_PROFILE_KEYS = {"benchmark", "workload", "implementation", "profiler", "dram_bytes", "kernels"}
_KERNEL_KEYS = {"name", "duration_s", "dram_bytes", "l2_bytes", "l1_bytes"}
_WRITTEN = set(Status) - {Status.WRONG}  # which the suite writes as "failed" with a failure
_WRONG_RESULT = "wrong result"
# Reason of a wrong result in old records without a "failure". Other exceptions were recorded as "Name(...)", ends of
# processes as "the worker ...".
_REFUSED = re.compile(r"relative error [0-9.e+-]+ (?:of its worst row )?exceeds [0-9.e+-]+")
_IDENTITY_KEYS = {"record", "run", "benchmark", "workload", "implementation"}


def _require(record: Mapping[str, Any], keys: set[str]) -> None:
    missing = keys - record.keys()
    if missing:
        raise ValueError(f"a {record.get('record', 'kernel')} without {', '.join(sorted(missing))}")


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
    return ContextMeasurement(
        run=run,
        benchmark=record["benchmark"],
        workload=record["workload"],
        implementation=record["implementation"],
        status=_status(record),
        reason=record.get("reason"),
        sample_count=record.get("sample_count"),
        code_sha256=record.get("code_sha256"),
        data={key: value for key, value in record.items() if key not in _IDENTITY_KEYS},
    )


def _status(record: Mapping[str, Any]) -> Status:
    if record["status"] not in _WRITTEN:
        raise ValueError(f"status {record['status']!r}; expected one of {', '.join(sorted(_WRITTEN))}")
    status = Status(record["status"])
    if status is not Status.FAILED:
        return status
    failure = record.get("failure")
    is_wrong = failure == _WRONG_RESULT if failure else _REFUSED.fullmatch(record.get("reason") or "") is not None
    return Status.WRONG if is_wrong else Status.FAILED


def _profile(record: Mapping[str, Any], run: ContextRun) -> ContextProfile:
    _require(record, _PROFILE_KEYS)
    for kernel in record["kernels"]:
        _require(kernel, _KERNEL_KEYS)
    return ContextProfile(
        run=run,
        benchmark=record["benchmark"],
        workload=record["workload"],
        implementation=record["implementation"],
        data={key: value for key, value in record.items() if key not in _IDENTITY_KEYS},
    )

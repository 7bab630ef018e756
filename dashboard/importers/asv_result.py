"""One asv result file, read into records: `<machine>/<commit>-<environment>.json`, of asv's format 1 or 2.

asv writes Python's JSON: bare NaN and Infinity occur. A row's trailing columns are left out when empty, `result` is
null when every point failed, and a value is null where one point failed and NaN where the benchmark does not apply.
"""

import hashlib
import itertools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from warpwatch.dashboard.store.incoming import Entry, ResultFile, Value
from warpwatch.dashboard.store.records import Status


class BrokenFileError(Exception):
    """A file that cannot be understood; the message says what was seen."""


def read_result(text: bytes, file_name: str) -> ResultFile:
    """Reads a result file's text; `file_name` gives the environment where the text does not.

    Raises BrokenFileError if it is not JSON, or lacks the commit, the date or the results.
    """
    try:
        data = json.loads(text)
    except ValueError as error:
        raise BrokenFileError(f"not JSON: {error}") from error
    if not isinstance(data, dict):
        raise BrokenFileError(f"a {type(data).__name__} where asv writes an object")
    for key, kind in (("commit_hash", str), ("results", dict)):
        if not isinstance(data.get(key), kind):
            raise BrokenFileError(f"no {key!r}, which every asv result has")
    date_ms = _integer(data.get("date"))
    if date_ms is None:
        raise BrokenFileError(f"date is {data.get('date')!r}; wanted milliseconds since 1970")
    given = data.get("params")
    params = given if isinstance(given, dict) else {}
    entries, problems = [], []
    for benchmark, columns in _rows(data):
        try:
            entries.append(_entry(benchmark, columns))
        except (BrokenFileError, TypeError, ValueError) as error:
            problems.append(f"{benchmark}: {error}")
    return ResultFile(
        commit=data["commit_hash"].lower(),
        date_ms=date_ms,
        environment=str(data.get("env_name") or file_name.removesuffix(".json").partition("-")[2] or "unknown"),
        machine=str(params["machine"]) if params.get("machine") else None,
        details={str(k): str(v) for k, v in params.items() if v is not None},
        entries=tuple(entries),
        problems=tuple(problems),
    )


def _rows(data: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Each benchmark with its columns by name, whichever format the file has."""
    names = data.get("result_columns")
    started = data.get("started_at") or {}
    for benchmark, row in data["results"].items():
        if isinstance(row, list) and isinstance(names, list):
            yield benchmark, dict(zip(names, row, strict=False))
        elif isinstance(row, dict):  # format 1: {"result": [...], "params": [...], "stats": [...]}
            stats = row.get("stats")
            stats = stats if isinstance(stats, list) else [stats]
            columns = {key: row.get(key) for key in ("result", "params", "samples")}
            for key in ("q_25", "q_75", "number", "repeat"):
                columns[f"stats_{key}"] = [(s or {}).get(key) for s in stats]
            yield benchmark, columns | {"started_at": started.get(benchmark)}
        else:  # format 1, a benchmark without parameters: the bare number
            yield benchmark, {"result": row, "started_at": started.get(benchmark)}


def _entry(benchmark: str, columns: Mapping[str, Any]) -> Entry:
    params = columns.get("params") or []
    if not all(isinstance(choices, list) for choices in params):
        raise BrokenFileError("its params are not lists")
    combinations = list(itertools.product(*[[str(c) for c in choices] for choices in params]))
    result = columns.get("result")
    if result is None:
        result = [None] * len(combinations)
    elif not isinstance(result, list):
        result = [result]
    if len(result) != len(combinations):
        raise BrokenFileError(f"{len(result)} values for {len(combinations)} parameter combinations")
    count = len(result)
    q25, q75 = _column(columns, "stats_q_25", count), _column(columns, "stats_q_75", count)
    repeat, samples = _column(columns, "stats_repeat", count), _column(columns, "samples", count)
    started_ms = _integer(columns.get("started_at"))
    values = tuple(map(_value, combinations, result, q25, q75, repeat, samples))
    digest = hashlib.blake2b(repr((params, result)).encode(), digest_size=6).hexdigest()
    return Entry(
        benchmark=benchmark,
        started_ms=started_ms,
        duration_s=_number(columns.get("duration")) or 0.0,
        mark=f"{started_ms or 0}-{digest}",
        values=values,
    )


def _column(columns: Mapping[str, Any], name: str, count: int) -> Sequence[Any]:
    """A per-combination column, or nothing for each combination where it is absent or of another length."""
    column = columns.get(name)
    return column if isinstance(column, list) and len(column) == count else (None,) * count


def _value(parameters: tuple[str, ...], raw: Any, q25: Any, q75: Any, repeat: Any, samples: Any) -> Value:
    if raw is None:
        return Value(parameters=parameters, status=Status.FAILED, reason="the benchmark failed")
    value = _number(raw)
    if value is None:
        return Value(parameters=parameters, status=Status.INVALID, reason=f"not a number: {str(raw)[:80]}")
    if math.isnan(value):
        return Value(parameters=parameters, status=Status.UNAVAILABLE, reason="not available here")
    if math.isinf(value):
        return Value(parameters=parameters, status=Status.INVALID, reason="not finite")
    kept = tuple(s for s in map(_number, samples) if s is not None) if isinstance(samples, list) else ()
    return Value(
        parameters=parameters,
        status=Status.OK,
        value=value,
        q25=_finite(q25),
        q75=_finite(q75),
        sample_count=len(kept) or _integer(repeat),
        samples=kept,
    )


def _number(raw: Any) -> float | None:
    """A float from a number or a number's text ("1.5e-6", "NaN"); None from anything else."""
    if isinstance(raw, (int, float, str)):
        try:
            return float(raw)
        except (ValueError, OverflowError):
            return None
    return None


def _finite(raw: Any) -> float | None:
    value = _number(raw)
    return value if value is not None and math.isfinite(value) else None


def _integer(raw: Any) -> int | None:
    value = _finite(raw)
    return None if value is None else int(value)

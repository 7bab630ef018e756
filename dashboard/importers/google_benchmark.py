"""Google Benchmark's JSON (--benchmark_out). Times are converted to seconds; each counter is a metric.

`latency` is the real time of an iteration, `cpu_time` the CPU time. Repetitions are samples, and their median is the
value; with --benchmark_report_aggregates_only the value is the aggregate "median", else "mean". The file names no
commit unless the run had --benchmark_context=commit=HASH.
"""

import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..model.result_file import LONGEST_NAME, BenchmarkSpec, ResultFile, Value
from ..model.series import Status
from .input_files import (
    BeyondLimitError,
    BrokenFileError,
    ImportOverrides,
    ReadSibling,
    check_commit,
    is_full_hash,
    milliseconds,
)
from .result_builder import ResultBuilder, finite, measured, not_measured

_MOST_REPETITIONS, _MOST_COUNTERS = 10_000, 100  # of a benchmark
_SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
_FIELDS = frozenset(
    {
        "name",
        "family_index",
        "per_family_instance_index",
        "run_name",
        "run_type",
        "repetitions",
        "repetition_index",
        "threads",
        "iterations",
        "real_time",
        "cpu_time",
        "time_unit",
        "label",
        "aggregate_name",
        "aggregate_unit",
        "error_occurred",
        "error_message",
        "skipped",
        "skip_message",
    }
)
_KNOWN_COUNTERS = {
    "bytes_per_second": ("bandwidth", "B/s"),
    "items_per_second": ("item_rate", "items/s"),
    "flops": ("flops", "FLOP/s"),
    "FLOPS": ("flops", "FLOP/s"),
    "max_bytes_used": ("peak_memory", "bytes"),
    "total_allocated_bytes": ("allocated_memory", "bytes"),
    "net_heap_growth": ("heap_growth", "bytes"),
}
_Run = Mapping[str, Any]


def recognises(data: Mapping[str, Any]) -> bool:
    """Whether the JSON has the shape of this format."""
    return isinstance(data.get("context"), dict) and isinstance(data.get("benchmarks"), list)


def read(data: Mapping[str, Any], overrides: ImportOverrides, _read_sibling: ReadSibling) -> tuple[ResultFile, ...]:
    """Read a file. Raises BrokenFileError without a benchmark, or without a fact that `overrides` lacks too."""
    context = data["context"]
    named = None if overrides.commit and not is_full_hash(str(context.get("commit")).lower()) else _named(context)
    commit, machine = overrides.commit or named, overrides.machine or context.get("host_name")
    if not commit:
        raise BrokenFileError(
            "no commit: Google Benchmark does not record it; give it (--commit, or commit= in a URL), "
            "or measure with --benchmark_context=commit=$(git rev-parse HEAD)"
        )
    if not machine:
        raise BrokenFileError("the file names no machine; give it (--machine, or machine= in a URL)")
    date = re.sub(r"^(\d{4})/(\d\d)/(\d\d)-", r"\1-\2-\3 ", str(context.get("date")))  # as old versions write it
    started_ms = milliseconds(date)
    builder = ResultBuilder()
    if overrides.commit and named not in (None, overrides.commit):
        builder.note(f"the file names commit {named}; imported as {overrides.commit}, as given")
    runs: dict[str, list[_Run]] = {}
    for raw in data["benchmarks"]:
        if isinstance(raw, dict) and raw.get("name"):
            if max(len(str(raw["name"])), len(str(raw.get("run_name")))) > LONGEST_NAME:
                raise BeyondLimitError(f"{str(raw['name'])[:80]!a}: a name of more than {LONGEST_NAME:,} characters")
            run = _typed(raw)
            runs.setdefault(str(run.get("run_name") or run["name"]), []).append(run)
    for name, repetitions in runs.items():
        if len(repetitions) > _MOST_REPETITIONS:
            raise BeyondLimitError(f"{name}: {len(repetitions):,} runs; at most {_MOST_REPETITIONS:,} are read")
        benchmark, names, values = _named_parameters(name)
        for metric, unit, value in _metrics(repetitions, values):
            builder.add(f"{benchmark}.{metric}", BenchmarkSpec(unit=unit, parameter_names=names), value)
    return (
        builder.result(
            commit=commit,
            date_ms=overrides.date_ms or started_ms,
            environment=f"google-benchmark, {context.get('library_build_type') or 'unknown'} build",
            machine=str(machine),
            details={
                "machine": context.get("host_name"),
                "num_cpu": context.get("num_cpus"),
                "mhz_per_cpu": context.get("mhz_per_cpu"),
                "library_version": context.get("library_version"),
            },
            started_ms=started_ms,
        ),
    )


def _named(context: Mapping[str, Any]) -> str | None:
    """The commit in the run's context."""
    commit = context.get("commit")
    if not commit:
        return None
    try:
        return check_commit(str(commit), "the context's commit")
    except BrokenFileError as error:
        how = (
            "measure with --benchmark_context=commit=$(git rev-parse HEAD), or give it (--commit, or commit= in a URL)"
        )
        raise BrokenFileError(f"{error}; {how}") from error


def _typed(run: _Run) -> _Run:
    """The run with its type, which old versions state in the name only."""
    aggregate = re.fullmatch(r"(.+)_(mean|median|stddev|BigO|RMS)", str(run["name"]))
    if "run_type" in run or aggregate is None:
        return run
    return {**run, "run_type": "aggregate", "run_name": aggregate[1], "aggregate_name": aggregate[2]}


def _named_parameters(run_name: str) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """`BM_copy/n:64/8/real_time` is BM_copy with n, an unnamed parameter and the kind of time.

    The benchmark's name ends before the first part that is a number or has a name; fixtures and captured arguments
    belong to the name.
    """
    parts = re.split(r"/(?![^<]*>)", run_name)  # not within a template's arguments
    first = next((i for i, part in enumerate(parts) if i and re.fullmatch(r"-?\d+|[A-Za-z_]\w*:[^:].*", part)), None)
    marks = {"real_time", "process_time", "manual_time"}
    if first is None:
        first = next((i for i, part in enumerate(parts) if i and part in marks), len(parts))
    names, values = [], []
    for number, part in enumerate(parts[first:], start=1):
        name, colon, value = part.partition(":")
        names.append(name if colon else "timed" if part in marks else f"parameter {number}")
        values.append(value if colon else part)
    return (
        "/".join(parts[:first]),
        tuple(names),
        tuple(value if finite(value) is not None else repr(value) for value in values),
    )


def _metrics(runs: Sequence[_Run], parameters: tuple[str, ...]) -> Iterator[tuple[str, str, Value]]:
    """The metrics of one benchmark's runs: name, unit, value."""
    single = [run for run in runs if run.get("run_type", "iteration") == "iteration"]
    good = [run for run in single if not run.get("error_occurred") and not run.get("skipped")]
    if single and not good:
        yield "latency", "seconds", _failed(single[0], parameters)
        return
    aggregates = {run.get("aggregate_name"): run for run in runs if run.get("run_type") == "aggregate"}
    chosen = aggregates.get("median") or aggregates.get("mean")
    if not good and chosen is None:
        return  # a fit of its complexity (BigO, RMS) is no measurement
    of_run = good[0] if good else chosen
    assert of_run is not None
    factor = _SECONDS.get(str(of_run.get("time_unit", "ns")))
    if factor is None:
        raise BrokenFileError(f"{of_run['name']}: time_unit is {of_run['time_unit']!r}; expected one of ns, us, ms, s")
    columns = [("real_time", "latency", "seconds", factor), ("cpu_time", "cpu_time", "seconds", factor)]
    counters = [key for key, raw in of_run.items() if key not in _FIELDS and _is_number(raw)]
    if len(counters) > _MOST_COUNTERS:
        raise BeyondLimitError(f"{of_run['name']}: {len(counters):,} counters; at most {_MOST_COUNTERS} are read")
    columns += [(key, *_counter(key), 1.0) for key in counters]
    for key, metric, unit, scale in columns:
        if len(good) > 1:
            samples = [number * scale for run in good if (number := finite(run.get(key))) is not None]
            raw: Any = statistics.median(samples) if samples else of_run.get(key)
            yield metric, unit, measured(parameters, raw, samples=samples)
        elif key in of_run:
            number = finite(of_run[key])
            raw = of_run[key] if number is None else number * scale
            count = 1 if good else of_run.get("repetitions")
            yield metric, unit, measured(parameters, raw, count=count if isinstance(count, int) else None)


def _failed(run: _Run, parameters: tuple[str, ...]) -> Value:
    if run.get("error_occurred"):
        return not_measured(parameters, Status.FAILED, str(run.get("error_message") or "the benchmark failed"))
    return not_measured(parameters, Status.UNAVAILABLE, str(run.get("skip_message") or "the benchmark was skipped"))


def _counter(name: str) -> tuple[str, str]:
    """Metric and unit of a counter. Only rates have a known direction, so that no other is judged."""
    if name in _KNOWN_COUNTERS:
        return _KNOWN_COUNTERS[name]
    is_rate = name.endswith(("_per_second", "/s", "_rate"))
    return re.sub(r"\W+", "_", name).strip("_") or "counter", "1/s" if is_rate else "count"


def _is_number(raw: Any) -> bool:
    return isinstance(raw, (int, float)) and not isinstance(raw, bool)

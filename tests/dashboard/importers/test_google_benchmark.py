"""Google Benchmark's files: single runs, repetitions, aggregates alone, errors, counters."""

import statistics
from typing import Any

import pytest

from tests.dashboard.importers.recorded_files import COMMIT, GIVEN, read, recorded, values
from warpwatch.dashboard.importers.input_files import BrokenFileError, ImportOverrides
from warpwatch.dashboard.model.metric import metric, metric_name
from warpwatch.dashboard.model.series import Status


def _named(name: str, **more: Any) -> dict[str, Any]:
    """The recorded file with nothing but its first benchmark, called otherwise."""
    data = recorded("google_benchmark.json")
    data["benchmarks"] = [data["benchmarks"][0] | {"name": name, "run_name": name} | more]
    return data


def test_times_are_seconds_whatever_their_unit_in_the_file() -> None:
    (result,) = read(recorded("google_benchmark.json"))
    (in_ns,) = values(result, "sum_million.latency").values()
    assert in_ns.value == pytest.approx(4.5925875504811603e05 * 1e-9)
    in_us = values(result, "matmul.latency")["64", "1"]
    assert in_us.value == pytest.approx(1.6665655719347237e02 * 1e-6)
    assert values(result, "matmul.cpu_time")["64", "1"].value == pytest.approx(1.1840833057851239e02 * 1e-6)
    assert result.listed["matmul.latency"].unit == "seconds"


def test_parameters_are_those_behind_the_name() -> None:
    (result,) = read(recorded("google_benchmark.json"))
    assert result.listed["matmul.latency"].parameter_names == ("n", "threads")
    assert set(values(result, "matmul.latency")) == {("64", "1"), ("64", "2"), ("256", "1"), ("256", "2")}
    assert set(values(result, "real.latency")) == {("50", "'process_time'", "'real_time'")}


@pytest.mark.parametrize(
    ("name", "shown", "names", "parameters"),
    [
        ("BM_copy", "BM_copy", (), ()),
        ("BM_copy/8/512", "BM_copy", ("parameter 1", "parameter 2"), ("8", "512")),
        ("Fixture/Method/-3", "Fixture/Method", ("parameter 1",), ("-3",)),
        ("ns::BM_copy<int, a/b>/8", "ns::BM_copy<int, a/b>", ("parameter 1",), ("8",)),
        ("BM_args/int_string_test/dtype:fp16", "BM_args/int_string_test", ("dtype",), ("'fp16'",)),
        ("BM_copy/real_time", "BM_copy", ("timed",), ("'real_time'",)),
    ],
)
def test_a_name_ends_where_its_parameters_begin(
    name: str, shown: str, names: tuple[str, ...], parameters: tuple[str, ...]
) -> None:
    (result,) = read(_named(name))
    assert result.listed[f"{shown}.latency"].parameter_names == names
    assert set(values(result, f"{shown}.latency")) == {parameters}


def test_repetitions_are_samples_and_their_median_the_value() -> None:
    data = recorded("google_benchmark_repetitions.json")
    times = [b["real_time"] * 1e-9 for b in data["benchmarks"] if b["run_type"] == "iteration"][:3]
    (result,) = read(data)
    (value,) = values(result, "sum_million.latency").values()
    assert value.samples == pytest.approx(times)
    assert value.value == pytest.approx(statistics.median(times))
    assert value.sample_count == 3
    assert value.q25 is not None
    assert value.q75 is not None
    assert min(times) < value.q25 < value.value < value.q75 < max(times)


def test_aggregates_alone_give_their_median() -> None:
    data = recorded("google_benchmark_aggregates.json")
    median = next(b for b in data["benchmarks"] if b["name"] == "sum_million_median")
    (result,) = read(data)
    (value,) = values(result, "sum_million.latency").values()
    assert value.value == pytest.approx(median["real_time"] * 1e-9)
    assert (value.sample_count, value.samples) == (3, ())


def test_the_fit_of_a_complexity_is_no_measurement() -> None:
    data = _named("BM_copy/8")
    data["benchmarks"] += [
        {
            "name": "BM_copy_BigO",
            "run_name": "BM_copy",
            "run_type": "aggregate",
            "aggregate_name": "BigO",
            "cpu_coefficient": 1.5,
            "real_coefficient": 1.5,
            "big_o": "N",
            "time_unit": "ns",
        },
        {"name": "BM_copy_RMS", "run_name": "BM_copy", "run_type": "aggregate", "aggregate_name": "RMS", "rms": 0.01},
    ]
    (result,) = read(data)
    assert {entry.benchmark for entry in result.entries} == {"BM_copy.latency", "BM_copy.cpu_time"}
    assert set(values(result, "BM_copy.latency")) == {("8",)}


def test_files_of_before_runs_had_types_are_read() -> None:
    """Old versions write neither run_type nor run_name, and a date of their own kind."""
    data = recorded("google_benchmark_repetitions.json")
    data["context"]["date"] = "2019/03/17-18:40:25"
    kept = ("name", "iterations", "real_time", "cpu_time", "time_unit")
    runs = [run for run in data["benchmarks"] if run["run_name"] == "sum_million" and "cv" not in run["name"]]
    data["benchmarks"] = [{key: run[key] for key in kept} for run in runs]
    (old,), (new,) = read(data), read(recorded("google_benchmark_repetitions.json"))
    assert values(old, "sum_million.latency") == values(new, "sum_million.latency")
    assert old.entries[0].started_ms == 1_552_848_025_000
    assert {entry.benchmark for entry in old.entries} == {"sum_million.latency", "sum_million.cpu_time"}


def test_an_error_is_a_failure_with_its_message_and_a_skip_is_none() -> None:
    for file in ("google_benchmark.json", "google_benchmark_repetitions.json", "google_benchmark_aggregates.json"):
        (result,) = read(recorded(file))
        (value,) = values(result, "skipped.latency").values()
        assert (value.status, value.reason, value.value) == (Status.FAILED, "no such device", None)
    (result,) = read(_named("BM_x", skipped=True, skip_message="no AVX here"))
    (value,) = values(result, "BM_x.latency").values()
    assert (value.status, value.reason) == (Status.UNAVAILABLE, "no AVX here")


def test_counters_are_metrics_and_rates_better_high() -> None:
    (result,) = read(recorded("google_benchmark.json"))
    shown = {}
    for entry in result.entries:
        if entry.benchmark.startswith("matmul."):
            found = metric(metric_name(entry.benchmark, None), result.listed[entry.benchmark].unit or "")
            shown[found.name] = (found.unit, found.better.value, found.is_judged)
    assert shown == {
        "latency": ("seconds", "lower", True),
        "cpu_time": ("seconds", "lower", False),
        "bandwidth": ("B/s", "higher", False),
        "flops": ("FLOP/s", "higher", False),
        "item_rate": ("items/s", "higher", False),
    }
    assert values(result, "matmul.flops")["64", "1"].value == 4.4277965700425367e09


def test_a_time_that_is_not_finite_is_invalid() -> None:
    (result,) = read(_named("BM_x", real_time=float("nan")))
    (value,) = values(result, "BM_x.latency").values()
    assert value.status is Status.INVALID


def test_an_unknown_time_unit_is_refused() -> None:
    with pytest.raises(BrokenFileError, match="'fortnights'"):
        read(_named("BM_x", time_unit="fortnights"))


def test_the_commit_is_given_or_noted_by_the_run() -> None:
    data = recorded("google_benchmark.json")
    with pytest.raises(BrokenFileError, match="--benchmark_context=commit"):
        read(data, ImportOverrides())  # its context says commit=abc, which is no full hash
    data["context"]["commit"] = COMMIT
    (result,) = read(data, ImportOverrides())
    assert result.commit == COMMIT
    assert result.date_ms == result.entries[0].started_ms  # nothing else has a date
    (result,) = read(data, ImportOverrides(commit="cd" * 20))
    assert result.commit == "cd" * 20
    assert any(COMMIT in problem for problem in result.problems)


def test_debug_builds_are_another_environment() -> None:
    data = recorded("google_benchmark.json")
    (release,) = read(data, GIVEN)
    data["context"]["library_build_type"] = "debug"
    (debug,) = read(data, GIVEN)
    assert release.environment != debug.environment

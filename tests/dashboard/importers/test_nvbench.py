"""NVBench's files: states, summaries, skipped states, several GPUs, samples in files next to it."""

import struct
from typing import Any

import numpy as np
import pytest

from tests.dashboard.importers.recorded_files import COMMIT, GIVEN, read, recorded, values
from warpwatch.dashboard.importers.input_files import BrokenFileError, ImportOverrides
from warpwatch.dashboard.model.metric import metric, metric_name
from warpwatch.dashboard.model.series import Status

FILE = "nvbench.json"


def _summary(tag: str, hint: str = "duration", **data: Any) -> dict[str, Any]:
    """A summary as NVBench's json_printer writes it: numbers are text."""
    kinds = {int: "int64", float: "float64", str: "string"}
    items = [{"name": name, "type": kinds[type(value)], "value": str(value)} for name, value in data.items()]
    return {"tag": tag, "name": tag, "hint": hint, "data": items}


def _with(*summaries: dict[str, Any]) -> dict[str, Any]:
    """The recorded file with its first state alone, and more summaries in that."""
    data = recorded(FILE)
    data["benchmarks"] = data["benchmarks"][:1]
    data["benchmarks"][0]["states"] = data["benchmarks"][0]["states"][:1]
    data["benchmarks"][0]["states"][0]["summaries"] += summaries
    return data


def test_a_state_is_a_value_of_each_metric() -> None:
    first, _ = read(recorded(FILE))
    latency = values(first, "copy_sweep_grid_shape.latency")
    assert set(latency) == {("64", "64"), ("256", "64")}
    assert first.listed["copy_sweep_grid_shape.latency"].parameter_names == ("BlockSize", "NumBlocks")
    value = latency["64", "64"]
    assert (value.value, value.sample_count) == (0.006484057010748448, 78)
    shown = {
        metric_name(e.benchmark, None): metric(metric_name(e.benchmark, None), first.listed[e.benchmark].unit or "")
        for e in first.entries
        if e.benchmark.startswith("copy_sweep_grid_shape.")
    }
    assert {name: (m.unit, m.better.value, m.is_judged) for name, m in shown.items()} == {
        "latency": ("seconds", "lower", True),
        "batch_latency": ("seconds", "lower", True),
        "cpu_time": ("seconds", "lower", False),
        "bandwidth": ("B/s", "higher", False),
        "bandwidth_utilization": ("share of peak", "higher", False),
        "item_rate": ("items/s", "higher", False),
    }


def test_a_skipped_state_has_its_reason_and_no_number() -> None:
    first, _ = read(recorded(FILE))
    latency = values(first, "copy_type_conversion_sweep.latency")
    skipped = latency["'I8'", "'I8'"]
    assert (skipped.status, skipped.value) == (Status.UNAVAILABLE, None)
    assert skipped.reason == "Not a conversion: InputType == OutputType."
    assert latency["'I8'", "'I16'"].status is Status.OK


def test_each_gpu_is_a_machine() -> None:
    assert [result.machine for result in read(recorded(FILE))] == ["Quadro GV100", "Quadro GP100"]
    overrides = ImportOverrides(commit=COMMIT, date_ms=1, machine="rack 3")
    assert [result.machine for result in read(recorded(FILE), overrides)] == [
        "rack 3 Quadro GV100",
        "rack 3 Quadro GP100",
    ]
    assert read(_with(), overrides)[0].machine == "rack 3"


def test_two_gpus_of_one_name_are_distinguished_by_number() -> None:
    data = recorded(FILE)
    data["devices"][1]["name"] = data["devices"][0]["name"]
    assert [result.machine for result in read(data)] == ["Quadro GV100 #0", "Quadro GV100 #1"]


def test_quartiles_and_median_of_newer_versions_are_read() -> None:
    (result,) = read(
        _with(*(_summary(f"nv/cold/time/gpu/{k}", value=v) for k, v in (("q1", 0.9), ("median", 1.0), ("q3", 1.2))))
    )
    (latency,) = values(result, "simple.latency").values()
    (median,) = values(result, "simple.median_latency").values()
    assert (latency.q25, latency.q75) == (median.q25, median.q75) == (0.9, 1.2)
    assert (latency.value, median.value) == (0.0010034006580799991, 1.0)


def test_samples_come_from_the_file_that_jsonbin_wrote() -> None:
    samples = [0.001, 0.002, 0.004]
    data = _with(
        _summary("nv/json/bin:nv/cold/sample_times", "file/sample_times", filename="out/r.json-bin/0.bin", size=3)
    )
    (result,) = read(data, companions={"r.json-bin/0.bin": struct.pack("<3f", *samples)})
    (latency,) = values(result, "simple.latency").values()
    assert latency.samples == pytest.approx(samples, rel=1e-6)
    assert latency.sample_count == 3
    assert (latency.q25, latency.q75) == pytest.approx(tuple(np.quantile(samples, (0.25, 0.75))), rel=1e-6)
    (without,) = values(read(data)[0], "simple.latency").values()
    assert (without.samples, without.sample_count) == ((), 499)


def test_a_summary_of_the_benchmarks_own_is_a_metric_without_verdicts() -> None:
    (result,) = read(_with(_summary("user/occupied SMs", "", value=80), _summary("user/note", "", value="hello")))
    (value,) = values(result, "simple.user_occupied_SMs").values()
    assert value.value == 80.0
    assert not metric("user_occupied_SMs", result.listed["simple.user_occupied_SMs"].unit or "").is_judged
    assert "simple.user_note" not in result.listed


def test_a_benchmark_of_the_cpu_alone_has_its_cpu_time() -> None:
    data = _with()
    state = data["benchmarks"][0]["states"][0]
    state["device"] = None
    state["summaries"] = [
        _summary("nv/cpu_only/time/cpu/mean", value=0.25),
        _summary("nv/cpu_only/sample_size", value=9),
    ]
    with pytest.raises(BrokenFileError, match="--machine"):
        read(data)
    (result,) = read(data, ImportOverrides(commit=COMMIT, date_ms=1, machine="box"))
    (value,) = values(result, "simple.latency").values()
    assert (value.value, value.sample_count) == (0.25, 9)


@pytest.mark.parametrize("raw", ["nan", "inf", None, "not-a-number"])
def test_a_time_that_is_no_finite_number_is_invalid(raw: str | None) -> None:
    data = _with()
    summaries = data["benchmarks"][0]["states"][0]["summaries"]
    next(s for s in summaries if s["tag"] == "nv/cold/time/gpu/mean")["data"][0]["value"] = raw
    (value,) = values(read(data)[0], "simple.latency").values()
    assert (value.status, value.value) == (Status.INVALID, None)


def test_a_benchmark_named_twice_keeps_what_came_first() -> None:
    data = _with()
    again = data["benchmarks"][0] | {"index": 1}
    data["benchmarks"].append(again)
    (result,) = read(data)
    assert len(values(result, "simple.latency")) == 1
    assert any("twice" in problem for problem in result.problems)


def test_commit_and_date_must_be_given() -> None:
    with pytest.raises(BrokenFileError, match=r"no commit.*--commit"):
        read(recorded(FILE), ImportOverrides())
    with pytest.raises(BrokenFileError, match=r"no date of the commit.*--date.*--repository"):
        read(recorded(FILE), ImportOverrides(commit=COMMIT))


def test_other_versions_are_refused() -> None:
    data = recorded(FILE)
    data["meta"]["version"]["json"]["major"] = 2
    with pytest.raises(BrokenFileError, match="version 2; this version reads 1"):
        read(data)
    del data["meta"]  # before January 2022
    with pytest.raises(BrokenFileError, match="version 0"):
        read(data)


def test_a_run_that_was_only_planned_holds_nothing() -> None:
    data = recorded(FILE)
    for benchmark in data["benchmarks"]:
        benchmark["states"] = None
    with pytest.raises(BrokenFileError, match="no measured benchmark"):
        read(data, GIVEN)

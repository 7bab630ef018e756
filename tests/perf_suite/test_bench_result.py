"""The figures, the table and the files of a one-off benchmark, from outcomes as the worker sends them."""

import csv
import json
from dataclasses import replace

import pytest

from perf_suite.catalogue import BENCHMARKS
from tests.perf_suite.example_records import RUN_ON_H200
from warpbench.machines import ceilings_of
from warpbench.one_off.ad_hoc import BadRequestError, ad_hoc_workload
from warpbench.one_off.result import BenchmarkResult
from warpbench.protocol import Outcome, outcome_from_line
from warpbench.records import Ceilings, Energy, MeasurementRecord, Status, Visit, from_line

WORKLOAD = ad_hoc_workload(BENCHMARKS["flash_attention"], "cuda", batch=2, seq_len=1024, causal=True)
RUN = replace(
    RUN_ON_H200,
    ceilings=ceilings_of("NVIDIA H200"),
    measured_ceilings=Ceilings(
        name="NVIDIA H200", source="measured", bandwidth_bps=4.4e12, flops={"fp16": 6.6e14}, measured_at="2026-01-01"
    ),
)


def outcome(implementation, latency_s=None, **fields):
    measurement = MeasurementRecord(
        run=RUN.run,
        benchmark="bench",
        workload=WORKLOAD.name,
        implementation=implementation,
        latency_s=latency_s,
        cache="cold",
        seed=1,
        **{"status": Status.OK if latency_s else Status.FAILED, "timer": "nvbench 0.3.0" if latency_s else None}
        | fields,
    )
    samples = tuple(latency_s * factor for factor in (0.99, 1.0, 1.01, 1.02, 0.98)) if latency_s else ()
    return Outcome(measurement=measurement, samples_s=samples)


RESULT = BenchmarkResult(
    run=RUN,
    workload=WORKLOAD,
    outcomes=(
        outcome("warpwatch", 100e-6, relative_error=3e-4, kernels_launched=1, peak_memory_bytes=1 << 20),
        outcome("triton", reason="relative error 2.0e-01 exceeds 2e-03"),
        outcome(
            "sdpa",
            120e-6,
            backend="cudnn_attention",
            energy=Energy(per_call_j=(0.05, 0.06, 0.055), window_s=0.3, power_w=500.0, method="NVML"),
        ),
        outcome("eager", 900e-6),
    ),
    controls=(
        Outcome(
            measurement=outcome(
                "canary", 1e-4, visits=(Visit(at_s=0.0, latency_s=1.00e-4), Visit(at_s=5.0, latency_s=1.02e-4))
            ).measurement
        ),
    ),
)


def test_figures_follow_from_the_latency_the_cost_and_the_ceilings():
    ours = RESULT.figures(RESULT.outcomes[0])
    flops, moved = WORKLOAD.cost.flops, WORKLOAD.cost.bytes
    assert ours.flops_per_s == pytest.approx(flops / 100e-6)
    assert ours.bandwidth_bps == pytest.approx(moved / 100e-6)
    assert ours.of_peak == pytest.approx(flops / 989.5e12 / 100e-6)  # compute-bound
    assert ours.of_measured == pytest.approx(flops / 660e12 / 100e-6)
    assert ours.spread == pytest.approx(0.02)  # the middle half of the five samples lies between 0.99 and 1.01


def test_the_ratio_is_to_the_fastest_baseline_that_gave_a_number():
    assert RESULT.best_baseline.implementation == "sdpa"
    assert [figures.speedup for _, figures in RESULT] == [pytest.approx(1.2), None, 1.0, pytest.approx(120 / 900)]


def test_a_failed_implementation_has_no_figure_and_makes_the_result_failed():
    failed = RESULT.figures(RESULT.outcomes[1])
    assert {getattr(failed, name) for name in failed.__slots__} == {None}
    assert RESULT.failed


def test_the_table_says_what_was_measured_on_what_and_why_something_was_not():
    table = RESULT.table()
    lines = table.splitlines()
    assert lines[0] == f"flash_attention {WORKLOAD.name}"
    assert "NVIDIA H200; torch 2.11; cold cache, nvbench 0.3.0" in lines[1]
    (heading,) = [line for line in lines if "implementation" in line]
    assert "vs sdpa" in heading
    (ours,) = [line.split() for line in lines if line.strip().startswith("warpwatch ")]
    assert ours[:4] == ["warpwatch", "100", "µs", "2.0"]
    assert "1.20x" in ours
    assert "triton: failed: relative error 2.0e-01 exceeds 2e-03" in lines
    assert "55.0 mJ" in table
    assert "moved by 2.0 %" in table
    assert "data sheet" in table
    assert "calibrated here (2026-01-01)" in table
    assert "warm" not in heading  # nothing was measured warm


def test_an_unknown_gpu_is_called_unknown(tmp_path):
    import dataclasses

    unknown = dataclasses.replace(RUN.gpu, name="NVIDIA Imaginary 9000")
    result = dataclasses.replace(
        RESULT, run=dataclasses.replace(RUN, gpu=unknown, ceilings=None, measured_ceilings=None)
    )
    table = result.table()
    assert "machines.py has no NVIDIA Imaginary 9000" in table
    assert "warpbench calibrate" in table
    assert "100 µs" in table


def test_a_result_without_any_number_is_a_table_of_reasons():
    import dataclasses

    result = dataclasses.replace(RESULT, outcomes=RESULT.outcomes[1:2])
    assert "triton: failed" in result.table()
    assert "implementation" not in result.table()


def test_the_json_file_holds_the_records_and_the_samples(tmp_path):
    (written,) = json.loads(RESULT.export(tmp_path / "out.json").read_text())["results"]
    assert from_line(json.dumps(written["run"])) == RUN
    assert from_line(json.dumps(written["workload"])).parameters == WORKLOAD.parameters
    outcomes = [outcome_from_line(json.dumps(measurement)) for measurement in written["measurements"]]
    assert tuple(outcomes) == RESULT.outcomes
    assert written["measurements"][0]["figures"]["speedup"] == pytest.approx(1.2)
    assert outcome_from_line(json.dumps(written["controls"][0])) == RESULT.controls[0]


def test_the_csv_file_has_a_row_an_implementation_and_nothing_where_there_is_no_number(tmp_path):
    with RESULT.export(str(tmp_path / "out.CSV")).open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["implementation"] for row in rows] == ["warpwatch", "triton", "sdpa", "eager"]
    assert float(rows[0]["latency_s"]) == 100e-6
    assert rows[0]["seq_q"] == "1024"
    assert rows[1]["status"] == "failed"
    assert rows[1]["latency_s"] == rows[1]["speedup"] == ""


def test_another_kind_of_file_is_refused(tmp_path):
    with pytest.raises(BadRequestError, match=r"\.json or \.csv, not as 'out\.xlsx'"):
        RESULT.export(tmp_path / "out.xlsx")
    assert not list(tmp_path.iterdir())

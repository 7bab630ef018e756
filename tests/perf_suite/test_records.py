"""Records keep their values through a line of JSON."""

import json
from dataclasses import replace

import pytest

from perf_suite.catalogue import catalogue_jobs
from tests.perf_suite.example_records import RUN_ON_H200
from warpbench.machines import MACHINES, ceilings_of
from warpbench.protocol import Outcome, jobs_from_json, jobs_to_json, outcome_from_line, outcome_to_line
from warpbench.records import (
    ClockEventReasons,
    CompiledRecord,
    MeasurementRecord,
    Status,
    WorkloadRecord,
    from_line,
    to_line,
)

RUN = replace(RUN_ON_H200, commit="0" * 40, environment="virtualenv-py3.11", ceilings=ceilings_of("NVIDIA H200"))
MEASUREMENT = MeasurementRecord(
    run=RUN.run,
    benchmark="benchmarks.rope.Rope",
    workload="cuda-fp16-b1-h32-s1-d128",
    implementation="triton",
    status=Status.OK,
    latency_s=3.5e-6,
    sample_count=400,
    sm_clock_hz=(1.98e9, 1.97e9),
    temperature_c=31.0,
    clock_event_reasons=ClockEventReasons(before=0, after=4),
    cache="cold",
    seed=1,
    timer="nvbench 0.3.0",
    relative_error=2e-4,
    tolerance=1e-3,
)
WORKLOAD = WorkloadRecord(
    run=RUN.run,
    benchmark=MEASUREMENT.benchmark,
    operator="rope",
    workload=MEASUREMENT.workload,
    parameters={"batch": 1, "interleaved": False},
    dtype="fp16",
    flops=12,
    bytes=34,
    kernels=("warpwatch", "triton"),
    baselines=("eager",),
)
COMPILED = CompiledRecord(
    run=RUN.run,
    benchmark="benchmarks.compiled_code.CompiledCode",
    operator="rope",
    kernel="rope_pairs",
    architecture="sm_75",
    registers=40,
    stack_bytes=0,
    shared_bytes=0,
    local_memory_instructions=0,
    code_bytes=1024,
    instructions={"total": 64, "LDG": 4},
    sha256="a" * 64,
)


@pytest.mark.parametrize("record", [RUN, WORKLOAD, MEASUREMENT, COMPILED], ids=lambda r: r.record)
def test_a_record_survives_its_line(record):
    assert from_line(to_line(record)) == record


def test_a_line_says_its_kind_and_a_run_its_schema():
    assert json.loads(to_line(RUN))["record"] == "run"
    assert json.loads(to_line(RUN))["schema"] == 1
    assert json.loads(to_line(MEASUREMENT))["status"] == "ok"


def test_a_field_of_a_later_schema_is_passed_over():
    line = json.dumps({**json.loads(to_line(COMPILED)), "unheard_of": 0.5})
    assert from_line(line) == COMPILED


def test_a_line_of_another_kind_is_refused():
    with pytest.raises(ValueError, match="no record kind 'energy'"):
        from_line('{"record": "energy"}')


def test_nan_is_no_json():
    with pytest.raises(ValueError, match="JSON"):
        to_line(WorkloadRecord(**{**{f: getattr(WORKLOAD, f) for f in WORKLOAD.__slots__}, "flops": float("nan")}))


def test_an_outcome_and_a_job_survive_the_pipe():
    outcome = Outcome(measurement=MEASUREMENT, samples_s=(3.5e-6, 3.6e-6))
    assert outcome_from_line(outcome_to_line(outcome)) == outcome
    jobs = list(catalogue_jobs(quick=True)[:3]) + list(catalogue_jobs()[-3:])
    assert jobs_from_json(jobs_to_json(jobs)) == jobs


def test_gpu_names_are_unique_and_an_unknown_gpu_has_no_ceilings():
    names = [name for machine in MACHINES for name in machine.names]
    assert len(set(names)) == len(names)
    assert ceilings_of("NVIDIA H200").bandwidth_bps == 4.8e12
    assert "bf16" not in ceilings_of("Tesla T4").flops
    assert ceilings_of("NVIDIA B300") is None

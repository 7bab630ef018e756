"""The writer of the context file (perf_suite) and its reader (dashboard) mean the same by it."""

from typing import Any

import pytest

from warpbench import records as written
from warpwatch.dashboard.importers.asv_context import read_context
from warpwatch.dashboard.model.series import Status
from warpwatch.dashboard.store import Store, queries

RUN = "0" * 32
SUITE = "benchmarks.rope.Rope"


def _records() -> list[written.Record]:
    run = written.RunRecord(
        run=RUN,
        commit="c" * 40,
        environment="env-py3.11",
        started_at="2025-06-15T17:00:00+00:00",
        device="cpu",
        gpu=None,
        cpu=written.Cpu(model="a CPU", cores=2, threads=1),
        software={"torch": "2.13"},
        ceilings=written.Ceilings(name="a CPU", source="datasheet", bandwidth_bps=1e10, flops={"fp32": 1e11}),
        measured_ceilings=written.Ceilings(
            name="a CPU",
            source="measured",
            bandwidth_bps=8e9,
            flops={"fp32": 6e10},
            l2_bandwidth_bps=4e10,
            measured_at="2025-06-14T08:00:00+00:00",
        ),
    )
    workload = written.WorkloadRecord(
        run=RUN,
        benchmark=SUITE,
        operator="rope",
        workload="w1",
        parameters={"batch": 1},
        dtype="fp32",
        flops=10,
        bytes=10_000_000,
        kernels=("warpwatch",),
        baselines=("eager",),
    )
    measured = [
        written.MeasurementRecord(
            run=RUN,
            benchmark=SUITE,
            workload="w1",
            implementation=name,
            status=written.Status.OK,
            latency_s=latency,
            sample_count=50,
            cache="warm",
            seed=1,
            at_s=12.5,
            throttled_s={"power cap": 0.25},
            contenders=0,
            warm_latency_s=1.5e-3,
            steady_latency_s=1.8e-3,
            steady_copies=8,
            tries=2,
            sm_cycles=2e6,
            peak_memory_bytes=4096,
            kernels_launched=3,
            launched={"kernel": 2, "memset": 1},
            code_sha256="ab" * 32,
            energy=written.Energy(per_call_j=(0.04, 0.041), window_s=0.5, power_w=300.0, method="NVML"),
        )
        for name, latency in (("warpwatch", 2e-3), ("eager", 3e-3))
    ]
    canary = written.MeasurementRecord(
        run=RUN,
        benchmark="benchmarks.control.Control",
        workload="cpu-fp32-triad",
        implementation="canary",
        status=written.Status.OK,
        latency_s=1e-3,
        sample_count=50,
        cache="warm",
        seed=1,
        visits=(written.Visit(at_s=1.0, latency_s=1e-3), written.Visit(at_s=9.0, latency_s=1.01e-3)),
    )
    control = written.WorkloadRecord(
        run=RUN,
        benchmark="benchmarks.control.Control",
        operator="control",
        workload="cpu-fp32-triad",
        parameters={},
        dtype="fp32",
        flops=10,
        bytes=10,
        kernels=(),
        baselines=(),
        controls=("canary",),
    )
    profile = written.ProfileRecord(
        run=RUN,
        benchmark=SUITE,
        operator="rope",
        workload="w1",
        implementation="warpwatch",
        cache="cold",
        profiler="Nsight Compute 2025.3.1",
        dram_bytes=12e6,
        kernels=(
            written.ProfiledKernel(
                name="rope_kernel",
                signature="rope_kernel<8>",
                duration_s=2e-3,
                dram_bytes=12e6,
                l2_bytes=2e7,
                l1_bytes=3e7,
                occupancy=0.5,
                tensor_pipe=None,
                stalls={"long scoreboard": 3.1},
                counters={"sm__cycles_elapsed.max": 4e6},
            ),
        ),
    )
    compiled = written.CompiledRecord(
        run=RUN,
        benchmark="benchmarks.compiled_code.CompiledCode",
        operator="rope",
        kernel="rope_kernel",
        architecture="sm_75",
        registers=40,
        stack_bytes=0,
        shared_bytes=0,
        local_memory_instructions=0,
        code_bytes=512,
        instructions={"total": 32},
        sha256="ab",
        barriers=1,
        occupancy=0.5,
        occupancy_limit="registers",
    )
    return [run, workload, control, *measured, canary, profile, compiled]


def test_every_record_that_the_suite_writes_is_read_without_a_problem() -> None:
    context = read_context("".join(written.to_line(record) + "\n" for record in _records()).encode())
    assert context.problems == ()
    assert (len(context.runs), len(context.workloads), len(context.measurements), len(context.compiled)) == (1, 2, 3, 1)
    assert len(context.profiles) == 1


def test_steady_latency_is_read_with_its_copies_or_why_there_is_none() -> None:
    run, *_ = _records()
    (measured, _) = [record for record in _records() if getattr(record, "tries", 1) == 2]
    unknown = written.MeasurementRecord(
        run=RUN,
        benchmark=SUITE,
        workload="w1",
        implementation="eager",
        status=written.Status.OK,
        latency_s=3e-3,
        cache="cold",
        seed=1,
        steady_reason="not captured: a CUDA graph cannot capture it",
    )
    lines = "".join(written.to_line(record) + "\n" for record in (run, measured, unknown))
    read, without = read_context(lines.encode()).measurements
    assert (read.data["steady_latency_s"], read.data["steady_copies"], read.data["tries"]) == (1.8e-3, 8, 2)
    assert (without.status, without.data["steady_latency_s"]) == (Status.OK, None)
    assert without.data["steady_reason"] == "not captured: a CUDA graph cannot capture it"


def test_a_baselines_inaccuracy_is_read_with_its_number() -> None:
    run = _records()[0]
    inaccurate = written.MeasurementRecord(
        run=RUN,
        benchmark=SUITE,
        workload="w1",
        implementation="eager",
        status=written.Status.OK,
        latency_s=3e-3,
        reason="inaccurate: its error is 1.4x the allowed one",
        cache="cold",
        seed=1,
        relative_error=1.5e-3,
        tolerance=2e-3,
        inaccuracy=1.4,
    )
    context = read_context("".join(written.to_line(record) + "\n" for record in (run, inaccurate)).encode())
    (measurement,) = context.measurements
    assert (measurement.status, measurement.reason) == (Status.OK, inaccurate.reason)
    assert measurement.data["inaccuracy"] == 1.4
    assert context.problems == ()


def test_every_status_of_the_suite_is_one_of_the_dashboard() -> None:
    # A wrong result is a way to fail there, and a status here.
    assert {status.value for status in written.Status} == {status.value for status in set(Status) - {Status.WRONG}}


def test_a_wrong_result_is_distinguished_from_other_failures() -> None:
    def read(failure: written.Failure | None) -> Status:
        run = _records()[0]
        failed = written.MeasurementRecord(
            run=RUN,
            benchmark=SUITE,
            workload="w1",
            implementation="warpwatch",
            status=written.Status.FAILED,
            reason="its output is (3,), the reference's (4,)",
            failure=failure,
            cache="cold",
            seed=1,
        )
        lines = "".join(written.to_line(record) + "\n" for record in (run, failed))
        (measurement,) = read_context(lines.encode()).measurements
        return measurement.status

    wrong = {failure for failure in written.Failure if read(failure) is Status.WRONG}
    assert wrong == {written.Failure.WRONG_RESULT}
    assert read(None) is Status.FAILED


def test_the_report_states_what_the_suite_wrote(sqlite_store: Store, asv: Any) -> None:
    params = [["'w1'"], ["'warpwatch'", "'eager'"]]
    asv.benchmark(f"{SUITE}.track_latency", workload=params[0], implementation=params[1])
    row = asv.row([2e-3, 3e-3], params, started_at=1_750_007_000_000, spread=0.01)
    path = asv.commit(1, {f"{SUITE}.track_latency": row})
    with path.with_name(path.stem + ".context.jsonl").open("w") as file:
        file.writelines(written.to_line(record) + "\n" for record in _records())
    assert asv.load(sqlite_store).warnings == ()
    ours, rival = queries.report(sqlite_store)
    assert (ours.implementation, ours.kernel, rival.implementation) == ("warpwatch", "rope", "eager")
    assert ours.speed_of_light is not None
    assert (ours.speed_of_light.of_peak, ours.speed_of_light.of_ceiling) == (pytest.approx(0.5), pytest.approx(0.625))
    assert ours.ratios[0].ratio == pytest.approx(1.5)
    assert ours.run == RUN

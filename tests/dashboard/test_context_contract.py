"""The writer of the context file (perf_suite) and its reader (dashboard) mean the same by it."""

from typing import Any

import pytest

from perf_suite import records as written
from warpwatch.dashboard.importers.context_file import read_context
from warpwatch.dashboard.store import Store, queries
from warpwatch.dashboard.store.records import Status

RUN = "0" * 32
SUITE = "benchmarks.rope.Rope"


def _records() -> list[written.Record]:
    run = written.RunRecord(
        run=RUN, commit="c" * 40, environment="env-py3.11", started_at="2025-06-15T17:00:00+00:00", device="cpu",
        gpu=None, cpu=written.Cpu(model="a CPU", cores=2, threads=1), software={"torch": "2.13"},
        ceilings=written.Ceilings(name="a CPU", source="measured", bandwidth_bps=1e10, flops={"fp32": 1e11}),
    )  # fmt: skip
    workload = written.WorkloadRecord(
        run=RUN, benchmark=SUITE, operator="rope", workload="w1", parameters={"batch": 1}, dtype="fp32", flops=10,
        bytes=10_000_000, kernels=("warpwatch",), baselines=("eager",),
    )  # fmt: skip
    measured = [
        written.MeasurementRecord(
            run=RUN, benchmark=SUITE, workload="w1", implementation=name, status=written.Status.OK, latency_s=latency,
            sample_count=50, cache="warm", seed=1,
        )
        for name, latency in (("warpwatch", 2e-3), ("eager", 3e-3))
    ]  # fmt: skip
    compiled = written.CompiledRecord(
        run=RUN, benchmark="benchmarks.compiled_code.CompiledCode", operator="rope", kernel="rope_kernel",
        architecture="sm_75", registers=40, stack_bytes=0, shared_bytes=0, local_memory_instructions=0, code_bytes=512,
        instructions={"total": 32}, sha256="ab",
    )  # fmt: skip
    return [run, workload, *measured, compiled]


def test_every_record_that_the_suite_writes_is_read_without_a_problem() -> None:
    context = read_context("".join(written.to_line(record) + "\n" for record in _records()).encode())
    assert context.problems == ()
    assert (len(context.runs), len(context.workloads), len(context.measurements), len(context.compiled)) == (1, 1, 2, 1)


def test_every_status_of_the_suite_is_one_of_the_dashboard() -> None:
    assert {status.value for status in written.Status} == {status.value for status in Status}


def test_what_the_suite_wrote_is_what_the_report_says(sqlite_store: Store, asv: Any) -> None:
    params = [["'w1'"], ["'warpwatch'", "'eager'"]]
    asv.benchmark(f"{SUITE}.track_latency", workload=params[0], implementation=params[1])
    row = asv.row([2e-3, 3e-3], params, started_at=1_750_007_000_000, spread=0.01)
    path = asv.commit(1, {f"{SUITE}.track_latency": row})
    with path.with_name(path.stem + ".context.jsonl").open("w") as file:
        file.writelines(written.to_line(record) + "\n" for record in _records())
    assert asv.load(sqlite_store).warnings == ()
    ours, rival = queries.report(sqlite_store)
    assert (ours.implementation, ours.operator, rival.implementation) == ("warpwatch", "rope", "eager")
    assert ours.speed_of_light == pytest.approx(0.5)
    assert ours.ratios[0].ratio == pytest.approx(1.5)
    assert ours.run == RUN

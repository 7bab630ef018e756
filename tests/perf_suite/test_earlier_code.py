"""Which measurements of earlier commits stand for today's."""

from dataclasses import replace

import pytest

from tests.perf_suite.example_records import H200, RUN_ON_H200
from warpbench.records import MeasurementRecord, Status, to_line
from warpbench.unchanged import Code, measured_before

GPU = H200
HERE = replace(RUN_ON_H200, run="now", started_at="2026-11-21T12:00:00+00:00")
CODE = Code("benchmarks.rope.Rope", "cuda-fp16", "warpwatch", "c0de", ())


def run(name, commit, **changes):
    return replace(HERE, run=name, commit=commit, started_at=f"2026-11-20T0{name[-1]}:00:00+00:00", **changes)


def measurement(run, status=Status.OK, sha256="c0de"):
    return MeasurementRecord(
        run=run,
        benchmark=CODE.benchmark,
        workload=CODE.workload,
        implementation=CODE.implementation,
        status=status,
        latency_s=1e-5 if status is Status.OK else None,
        cache="cold",
        seed=1,
        code_sha256=sha256,
    )


def context(folder, *records):
    path = folder / f"{len(list(folder.iterdir()))}.context.jsonl"
    path.write_text("".join(to_line(record) + "\n" for record in records))
    return path


def test_the_newest_commit_that_measured_the_code_stands_for_it(tmp_path):
    files = [
        context(tmp_path, run("r2", "second"), measurement("r2")),
        context(tmp_path, run("r1", "first"), measurement("r1")),
        context(tmp_path, run("r3", "third"), measurement("r3", sha256="0ther")),
    ]
    assert measured_before(files, HERE) == {CODE: "second", replace(CODE, sha256="0ther"): "third"}


@pytest.mark.parametrize("status", [Status.INVALID, Status.FAILED, Status.UNAVAILABLE, Status.UNCHANGED])
def test_only_a_number_stands_for_a_number(status, tmp_path):
    files = [
        context(tmp_path, run("r1", "first"), measurement("r1")),
        context(tmp_path, run("r2", "second"), measurement("r2", status)),
    ]
    assert measured_before(files, HERE) == {CODE: "first"}
    assert measured_before(files[1:], HERE) == {}


@pytest.mark.parametrize(
    "changes",
    [
        {"gpu": replace(GPU, uuid="GPU-2")},
        {"gpu": replace(GPU, driver="590.1")},
        {"gpu": replace(GPU, power_limit_w=500.0)},
        {"software": {"torch": "2.11.1", "triton": "3.6.0"}},
        {"device": "cpu", "gpu": None},
    ],
    ids=["another card", "another driver", "another power limit", "another PyTorch", "no GPU"],
)
def test_other_conditions_do_not(changes, tmp_path):
    assert measured_before([context(tmp_path, run("r1", "first", **changes), measurement("r1"))], HERE) == {}


def test_other_processes_on_the_gpu_do_not_matter(tmp_path):
    alike = run("r1", "first", gpu=replace(GPU, other_processes=3))
    assert measured_before([context(tmp_path, alike, measurement("r1"))], HERE) == {CODE: "first"}


def test_on_the_cpu_the_processor_and_its_threads_must_be_the_same(tmp_path):
    here = replace(HERE, device="cpu", gpu=None)
    alike = run("r1", "first", device="cpu", gpu=None)
    assert measured_before([context(tmp_path, alike, measurement("r1"))], here) == {CODE: "first"}
    other = replace(alike, cpu=replace(HERE.cpu, threads=1))
    assert measured_before([context(tmp_path, other, measurement("r1"))], here) == {}


def test_code_that_is_unknown_is_not_the_same(tmp_path):
    assert measured_before([context(tmp_path, run("r1", "first"), measurement("r1", sha256=None))], HERE) == {}

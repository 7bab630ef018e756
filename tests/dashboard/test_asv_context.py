"""The context file of an asv result is read line by line; a bad line costs itself alone."""

import json
from typing import Any

import pytest

from warpwatch.dashboard.importers.asv_context import read_context
from warpwatch.dashboard.model.series import Status

RUN = {
    "record": "run",
    "schema": 1,
    "run": "r1",
    "commit": "c" * 40,
    "environment": "env",
    "started_at": "2026-01-01T00:00:00+00:00",
    "device": "cpu",
    "gpu": None,
    "cpu": {"model": "x", "cores": 2},
    "software": {},
    "ceilings": None,
}
MEASUREMENT = {
    "record": "measurement",
    "run": "r1",
    "benchmark": "b.Rope",
    "workload": "w",
    "implementation": "warpwatch",
    "status": "ok",
    "reason": None,
    "latency_s": 1e-3,
    "sample_count": 50,
    "backend": None,
}


def _text(*records: dict[str, Any] | str) -> bytes:
    lines = [record if isinstance(record, str) else json.dumps(record) + "\n" for record in records]
    return "".join(lines).encode()


def test_records_point_at_their_run() -> None:
    context = read_context(_text(RUN, MEASUREMENT))
    assert context.problems == ()
    assert context.measurements[0].run.name == "r1"
    assert context.runs["r1"].started_ms == 1_767_225_600_000
    assert context.measurements[0].data["latency_s"] == 1e-3


def test_a_line_still_being_written_is_left_alone() -> None:
    context = read_context(_text(RUN, MEASUREMENT, '{"record": "measurem'))
    assert (len(context.measurements), context.problems) == (1, ())


def test_a_bad_line_is_named_and_the_rest_is_read() -> None:
    orphan = MEASUREMENT | {"run": "nobody"}
    strange = MEASUREMENT | {"status": "fine"}
    context = read_context(_text(RUN, "{broken\n", orphan, strange, {"record": "workload", "run": "r1"}, MEASUREMENT))
    assert len(context.measurements) == 1
    assert [problem.split(":")[0] for problem in context.problems] == ["line 2", "line 3", "line 4", "line 5"]


@pytest.mark.parametrize(
    ("reason", "status"),
    [
        ("relative error 1.13e-02 exceeds 8e-03", Status.WRONG),
        ("relative error 3.44e-02 of its worst row exceeds 3e-02", Status.WRONG),
        ("ValueError('relative error 1.13e-02 exceeds 8e-03')", Status.FAILED),
        ("the worker died with signal 6: relative error 1.13e-02 exceeds 8e-03", Status.FAILED),
        (None, Status.FAILED),
    ],
)
def test_a_record_without_a_kind_of_failure_is_read_by_the_gates_own_sentence(
    reason: str | None, status: Status
) -> None:
    context = read_context(_text(RUN, MEASUREMENT | {"status": "failed", "reason": reason}))
    assert [measured.status for measured in context.measurements] == [status]


def test_another_schema_is_refused() -> None:
    context = read_context(_text(RUN | {"schema": 2}))
    assert "schema 2" in context.problems[0]


def test_a_record_of_an_unknown_kind_is_passed_over() -> None:
    assert read_context(_text(RUN, {"record": "weather", "sky": "blue"})).problems == ()


def test_a_profile_requires_its_bytes() -> None:
    kernel = {"name": "k", "duration_s": 1e-3, "dram_bytes": 1e6, "l2_bytes": 2e6, "l1_bytes": 3e6}
    profile = {
        "record": "profile",
        "run": "r1",
        "benchmark": "b.Rope",
        "workload": "w",
        "implementation": "warpwatch",
        "profiler": "ncu",
        "dram_bytes": 1e6,
        "kernels": [kernel],
    }
    context = read_context(_text(RUN, profile, profile | {"kernels": [{"name": "k"}]}, profile | {"run": "nobody"}))
    assert [found.data["dram_bytes"] for found in context.profiles] == [1e6]
    assert [problem.split(":")[0] for problem in context.problems] == ["line 3", "line 4"]


def test_a_bare_nan_becomes_nothing() -> None:
    line = json.dumps(MEASUREMENT | {"relative_error": float("nan")}) + "\n"
    assert read_context(_text(RUN, line)).measurements[0].data["relative_error"] is None

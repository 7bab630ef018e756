"""The context file next to asv's: which run a value came from, and its context."""

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import func, select

from tests.stored import stored_history
from warpwatch.dashboard.cli.report import report_table
from warpwatch.dashboard.model.series import Status
from warpwatch.dashboard.store import Store, queries, schema

SUITE = "benchmarks.rope.Rope"
PARAMS = [["'w1'"], ["'warpwatch'", "'eager'"]]
START = 1_767_225_600_000


def _run(name: str, hour: int) -> dict[str, Any]:
    ceilings = {"name": "H200", "source": "measured", "bandwidth_bps": 4e12, "flops": {"fp16": 6e14}}
    return {
        "record": "run",
        "schema": 1,
        "run": name,
        "commit": "c" * 40,
        "environment": "env-py3.11",
        "started_at": f"2026-01-01T{hour:02}:00:00+00:00",
        "device": "cuda",
        "gpu": {"name": "NVIDIA H200"},
        "cpu": {"model": "Xeon", "cores": 16},
        "software": {"torch": "2.11"},
        "ceilings": ceilings,
    }


WORKLOAD = {
    "record": "workload",
    "run": "r1",
    "benchmark": SUITE,
    "operator": "rope",
    "workload": "w1",
    "parameters": {"batch": 8},
    "dtype": "fp16",
    "flops": 100,
    "bytes": 4_000_000_000,
    "kernels": ["warpwatch", "triton"],
    "baselines": ["eager"],
}


def _measured(
    run: str, implementation: str, latency: float | None, status: str = "ok", reason: str | None = None
) -> Any:
    return {
        "record": "measurement",
        "run": run,
        "benchmark": SUITE,
        "workload": "w1",
        "implementation": implementation,
        "status": status,
        "reason": reason,
        "latency_s": latency,
        "sample_count": 50,
        "backend": "cudnn",
    }


@pytest.fixture
def measure(asv: Any) -> Callable[..., Any]:
    """Writes the commit's file with two latencies measured an hour into the day, as of the given hour."""
    asv.benchmark(f"{SUITE}.track_latency", workload=PARAMS[0], implementation=PARAMS[1])

    def write(values: list[Any], hour: int) -> Any:
        started = START + hour * 3_600_000 + 60_000
        return asv.commit(1, {f"{SUITE}.track_latency": asv.row(values, PARAMS, started_at=started, spread=0.01)})

    return write


def test_a_value_is_its_runs_with_rivals_and_the_share_of_the_speed_of_light(
    store: Store, asv: Any, measure: Callable[..., Any]
) -> None:
    path = measure([0.002, 0.003], 1)
    asv.context(path, _run("r1", 1), WORKLOAD, _measured("r1", "warpwatch", 0.002), _measured("r1", "eager", 0.003))
    asv.load(store)
    (row,) = queries.overview(store, "demo")
    assert row.series.implementation == "warpwatch"
    assert row.speed_of_light is not None
    assert row.speed_of_light.of_peak is None  # the ceilings were measured
    assert row.speed_of_light.of_ceiling == pytest.approx(0.5)  # 4e9 bytes at 4e12 B/s are 1 ms of 2
    assert row.baseline is not None
    assert (row.baseline.implementation, row.baseline.ratio) == ("eager", pytest.approx(1.5))
    ours, rival = queries.report(store)
    assert (ours.run, ours.backend, rival.is_baseline) == ("r1", "cudnn", True)
    assert ours.bandwidth_bps == pytest.approx(2e12)
    (roofline,) = queries.rooflines(store, "demo")
    assert roofline.machine.gpu == "NVIDIA H200"
    assert {point.implementation for point in roofline.points} == {"warpwatch", "eager"}
    history = stored_history(store, row.series.key)
    assert history is not None
    assert [other.series.implementation for other in history.others] == ["eager"]


def test_files_with_a_context_share_a_chunk_per_series(store: Store, asv: Any) -> None:
    asv.benchmark(f"{SUITE}.track_latency", workload=PARAMS[0], implementation=PARAMS[1])
    for number in range(3):
        row = asv.row([0.002, 0.003], PARAMS, started_at=START + number * 3_600_000, spread=0.01)
        path = asv.commit(number, {f"{SUITE}.track_latency": row})
        asv.context(path, _run(f"r{number}", number), {**WORKLOAD, "run": f"r{number}"})
    asv.load(store)
    with store.read() as connection:
        counts = select(func.count()).select_from(schema.chunk).group_by(schema.chunk.c.series_id)
        assert connection.execute(counts).scalars().all() == [1, 1]


def test_a_throttled_value_is_invalid_with_its_reason_and_no_number(
    store: Store, asv: Any, measure: Callable[..., Any]
) -> None:
    path = measure([0.002, None], 1)
    asv.context(
        path,
        _run("r1", 1),
        WORKLOAD,
        _measured("r1", "warpwatch", None, "invalid", "throttled: power cap"),
        _measured("r1", "eager", None, "failed", "CUDA error"),
    )
    asv.load(store)
    reasons = {row.implementation: (row.status, row.latency_s, row.reason) for row in queries.report(store)}
    assert reasons == {
        "warpwatch": (Status.INVALID, None, "throttled: power cap"),
        "eager": (Status.FAILED, None, "CUDA error"),
    }


def test_runs_that_asv_overwrote_are_taken_from_the_context(
    store: Store, asv: Any, measure: Callable[..., Any]
) -> None:
    path = measure([0.002, 0.003], 5)
    asv.context(path, _run("r1", 1), WORKLOAD, _measured("r1", "warpwatch", 0.0021), _measured("r1", "eager", 0.0031))
    asv.context(path, _run("r2", 5), _measured("r2", "warpwatch", 0.002), _measured("r2", "eager", 0.003))
    asv.load(store)
    history = stored_history(store, queries.overview(store, "demo")[0].series.key)
    assert history is not None
    assert [(point.run, point.value) for point in history.points] == [("r1", 0.0021), ("r2", 0.002)]


def test_other_metrics_of_overwritten_runs_are_taken_from_the_context_too(
    sqlite_store: Store, asv: Any, measure: Callable[..., Any]
) -> None:
    """What the older run did not measure (no warm latency here) gives no value."""
    name, started = f"{SUITE}.track_kernels_launched", START + 5 * 3_600_000 + 60_000
    for method in (name, f"{SUITE}.track_warm_latency"):
        asv.benchmark(method, workload=PARAMS[0], implementation=PARAMS[1])
    rows = {f"{SUITE}.track_latency": [0.002, 0.003], name: [2, 5], f"{SUITE}.track_warm_latency": [0.001, 0.002]}
    path = asv.commit(1, {key: asv.row(values, PARAMS, started_at=started) for key, values in rows.items()})
    asv.context(
        path,
        _run("r1", 1),
        WORKLOAD,
        _measured("r1", "warpwatch", 0.0021) | {"kernels_launched": 3},
        _measured("r1", "eager", 0.0031),
    )
    asv.context(path, _run("r2", 5), _measured("r2", "warpwatch", 0.002), _measured("r2", "eager", 0.003))
    asv.load(sqlite_store)
    by_metric = {}
    for found in queries.find_series(sqlite_store, "demo", search="warpwatch").series:
        history = stored_history(sqlite_store, found.key)
        assert history is not None
        by_metric[found.metric.name] = [(point.run, point.value) for point in history.points]
    assert by_metric == {
        "latency": [("r1", 0.0021), ("r2", 0.002)],
        "kernels_launched": [("r1", 3), ("r2", 2)],
        "warm_latency": [("r2", 0.001)],
    }


def test_a_run_still_going_on_is_not_taken_before_asv_saves_it(
    store: Store, asv: Any, measure: Callable[..., Any]
) -> None:
    path = measure([0.002, 0.003], 1)
    asv.context(path, _run("r1", 1), WORKLOAD, _measured("r1", "warpwatch", 0.002), _measured("r1", "eager", 0.003))
    asv.context(path, _run("r2", 5), _measured("r2", "warpwatch", 0.0022), _measured("r2", "eager", 0.0032))
    asv.load(store)
    key = queries.overview(store, "demo")[0].series.key
    before = stored_history(store, key)
    assert before is not None
    assert [point.run for point in before.points] == ["r1"]
    measure([0.0022, 0.0032], 5)
    asv.load(store)
    after = stored_history(store, key)
    assert after is not None
    assert [(point.run, point.value, point.q25 is not None) for point in after.points] == [
        ("r1", 0.002, True),
        ("r2", 0.0022, True),
    ]


def test_compiled_code_is_on_the_commits_page(store: Store, asv: Any) -> None:
    name = "benchmarks.compiled_code.CompiledCode.track_registers"
    asv.benchmark(name, unit="registers", kernel=["'k'"], architecture=["'sm_75'"])
    path = asv.commit(1, {name: asv.row([96], [["'k'"], ["'sm_75'"]], started_at=START + 3_700_000)})
    compiled = {
        "record": "compiled",
        "run": "r1",
        "benchmark": "benchmarks.compiled_code.CompiledCode",
        "operator": "rope",
        "kernel": "k",
        "architecture": "sm_75",
        "registers": 96,
        "stack_bytes": 0,
        "shared_bytes": 1024,
        "local_memory_instructions": 0,
        "code_bytes": 2048,
        "instructions": {"total": 128, "HMMA": 4},
        "sha256": "ab",
    }
    asv.context(path, _run("r1", 1), compiled)
    asv.load(store)
    page = queries.commit_page(store, "demo", "00000001")
    assert page is not None
    (code,) = page.compiled
    assert (code.registers, code.instructions["HMMA"]) == (96, 4)
    assert page.points[0].value == 96


def test_a_broken_line_of_context_is_a_warning(store: Store, asv: Any, measure: Callable[..., Any]) -> None:
    path = measure([0.002, 0.003], 1)
    asv.context(path, _run("r1", 1), WORKLOAD, {"record": "measurement"}, _measured("r1", "warpwatch", 0.002))
    summary = asv.load(store)
    assert "line 3" in summary.warnings[0]
    assert summary.set_aside == ()


def test_a_rival_is_known_as_one_where_the_machine_cannot_run_the_workload(sqlite_store: Store, asv: Any) -> None:
    """Only workloads that a machine can run are described; the others' implementations still have their roles."""
    params = [["'w1'", "'gpu'"], PARAMS[1]]
    asv.benchmark(f"{SUITE}.track_latency", workload=params[0], implementation=params[1])
    values = [0.002, 0.003, float("nan"), float("nan")]
    path = asv.commit(1, {f"{SUITE}.track_latency": asv.row(values, params, started_at=START + 3_700_000)})
    asv.context(path, _run("r1", 1), WORKLOAD, _measured("r1", "warpwatch", 0.002), _measured("r1", "eager", 0.003))
    asv.load(sqlite_store)
    shown = [(row.series.workload, row.series.implementation) for row in queries.overview(sqlite_store, "demo")]
    assert sorted(shown) == [("gpu", "warpwatch"), ("w1", "warpwatch")]
    text = report_table(queries.report(sqlite_store))
    assert "1 workload not available on this machine." in text
    assert "gpu" not in text
    assert [line.split()[0] for line in text.splitlines() if " ms " in line] == ["warpwatch", "eager"]
    assert all(len(line) <= 100 for line in text.splitlines())


def test_a_value_without_a_run_record_is_its_suites_and_a_run_without_values_is_none(
    sqlite_store: Store, asv: Any
) -> None:
    params = [["'w1'", "'gpu'"], PARAMS[1]]
    asv.benchmark(f"{SUITE}.track_latency", workload=params[0], implementation=params[1])
    values = [0.002, 0.003, float("nan"), float("nan")]
    path = asv.commit(1, {f"{SUITE}.track_latency": asv.row(values, params, started_at=START + 3_700_000)})
    asv.context(
        path,
        _run("r0", 0),
        _run("r1", 1),
        WORKLOAD,
        _measured("r1", "warpwatch", 0.002),
        _measured("r1", "eager", 0.003),
    )
    asv.load(sqlite_store)
    (machine,) = queries.machines(sqlite_store, "demo")
    assert machine.runs == 1
    found = queries.find_series(sqlite_store, "demo", search="gpu warpwatch").series
    history = stored_history(sqlite_store, found[0].key)
    assert history is not None
    assert [(point.run, point.status) for point in history.points] == [("r1", Status.UNAVAILABLE)]


def test_a_twin_of_ours_is_listed_with_the_baselines(sqlite_store: Store, asv: Any) -> None:
    implementations = ["'warpwatch'", "'eager'", "'triton'"]
    asv.benchmark(f"{SUITE}.track_latency", workload=["'w1'"], implementation=implementations)
    row = asv.row([0.002, 0.003, 0.0025], [["'w1'"], implementations], started_at=START + 3_700_000)
    path = asv.commit(1, {f"{SUITE}.track_latency": row})
    names = {"warpwatch": 0.002, "eager": 0.003, "triton": 0.0025}
    asv.context(path, _run("r1", 1), WORKLOAD, *(_measured("r1", name, value) for name, value in names.items()))
    asv.load(sqlite_store)
    found = queries.find_series(sqlite_store, "demo", search="warpwatch").series
    history = stored_history(sqlite_store, found[0].key)
    assert history is not None
    others = [(other.series.implementation, other.series.is_baseline) for other in history.others]
    assert others == [("triton", False), ("eager", True)]

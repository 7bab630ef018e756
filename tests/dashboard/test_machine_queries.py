"""What the store returns about a machine: limits, GPUs, canaries, equal code measured twice, profiles."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.dashboard.suite_results import MATMUL, SUITE, TRIAD, Suite
from tests.stored import stored_history
from warpwatch.dashboard.analysis.trust import equal_code_spread
from warpwatch.dashboard.store import Store, queries

OLD, NEW = "a" * 64, "b" * 64
PEAKS = {"name": "H200", "source": "datasheet", "bandwidth_bps": 4.8e12, "flops": {"fp16": 9.89e14}}
MEASURED = {
    "name": "H200",
    "source": "measured",
    "bandwidth_bps": 4.37e12,
    "flops": {"fp16": 6.7e14},
    "measured_at": "2026-11-20T08:00:00+00:00",
    "l2_bandwidth_bps": 1e13,
}


def _profile(run: str, dram_bytes: float) -> dict[str, Any]:
    kernel = {
        "name": "rope_kernel",
        "duration_s": 1e-4,
        "dram_bytes": dram_bytes,
        "l2_bytes": 2e7,
        "l1_bytes": 3e7,
        "occupancy": 0.5,
        "tensor_pipe": None,
        "stalls": {"wait": 0.5, "long scoreboard": 6.0},
    }
    return {
        "record": "profile",
        "run": run,
        "benchmark": SUITE,
        "operator": "rope",
        "workload": "w1",
        "implementation": "warpwatch",
        "profiler": "Nsight Compute 2025.3",
        "dram_bytes": dram_bytes,
        "kernels": [kernel],
    }


def test_a_machine_has_the_limits_of_its_newest_run_that_saw_the_gpu(store: Store, asv: Any) -> None:
    history = Suite(asv)
    history.commit(0, more={"ceilings": PEAKS})
    path = history.commit(1, more={"ceilings": PEAKS, "measured_ceilings": MEASURED})
    asv.context(
        path,
        {
            "record": "run",
            "schema": 1,
            "run": "compiler",
            "commit": "c",
            "environment": "e",
            "gpu": None,
            "started_at": "2026-02-01T00:00:00+00:00",
            "device": "cpu",
            "cpu": {"model": "Xeon"},
            "ceilings": None,
        },
    )
    asv.load(store)
    (machine,) = queries.machines(store, "demo")
    assert machine.gpu == "NVIDIA H200"
    assert machine.limits.peaks is not None
    assert machine.limits.measured is not None
    assert (machine.limits.peaks.bandwidth_bps, machine.limits.measured.l2_bandwidth_bps) == (4.8e12, 1e13)
    assert machine.limits.measured.measured_at is not None
    assert machine.limits.measured.measured_at.year == 2026
    (row,) = queries.overview(store, "demo")
    assert row.speed_of_light is not None
    assert row.speed_of_light.of_peak < row.speed_of_light.of_ceiling  # type: ignore[operator]


def test_a_share_is_of_the_ceilings_of_the_card_that_measured_it(store: Store, asv: Any) -> None:
    path = Suite(asv).commit(1, card="GPU-one", more={"ceilings": PEAKS, "measured_ceilings": MEASURED})
    slower = {**MEASURED, "bandwidth_bps": 2.2e12}
    asv.context(
        path,
        {
            "record": "run",
            "schema": 1,
            "run": "other",
            "commit": "c",
            "environment": "e",
            "device": "cuda",
            "gpu": {"name": "NVIDIA H200", "uuid": "GPU-two"},
            "started_at": "2026-02-01T00:00:00+00:00",
            "cpu": None,
            "ceilings": PEAKS,
            "measured_ceilings": slower,
        },
    )
    asv.load(store)
    (machine,) = queries.machines(store, "demo")
    assert machine.limits.measured is not None
    assert machine.limits.measured.bandwidth_bps == slower["bandwidth_bps"]  # the newest card's
    (row,) = queries.overview(store, "demo")
    assert row.speed_of_light is not None
    assert row.speed_of_light.of_peak is not None
    assert row.speed_of_light.of_ceiling == pytest.approx(row.speed_of_light.of_peak * 4.8 / 4.37)


def test_a_machines_gpus_are_listed_newest_first(store: Store, asv: Any) -> None:
    history = Suite(asv)
    for number, card in enumerate(("GPU-one", "GPU-two", "GPU-two")):
        history.commit(number, card=card)
    asv.load(store)
    (machine,) = queries.machines(store, "demo")
    assert [(card.uuid, card.runs) for card in machine.gpus] == [("GPU-two", 2), ("GPU-one", 1)]


def test_a_canary_has_its_last_movement_and_its_visits(store: Store, asv: Any) -> None:
    history = Suite(asv)
    for number in range(20):
        history.commit(number, {TRIAD: 1.1 if number >= 10 else 1.0}, visits=(1.0, 1.002, 0.999, 1.004))
    asv.load(store)
    found = {canary.series.workload: canary for canary in queries.canaries(store, "demo")["box"]}
    assert set(found) == {TRIAD, MATMUL}
    moved, still = found[TRIAD], found[MATMUL]
    assert moved.last_change is not None
    assert (moved.last_change.commit.position, moved.last_change.magnitude) == (10, pytest.approx(0.1, abs=0.005))
    assert still.last_change is None
    assert (len(still.visits), still.spread, still.drift) == (
        4,
        pytest.approx(1.004 / 0.999 - 1),
        pytest.approx(0.004),
    )


def test_runs_of_equal_code_on_one_card_are_pairs(store: Store, asv: Any) -> None:
    history = Suite(asv)
    for number, (code, card) in enumerate(
        ((OLD, "GPU-one"), (OLD, "GPU-one"), (NEW, "GPU-one"), (OLD, "GPU-two"), (OLD, "GPU-one"))
    ):
        history.commit(number, code=code, card=card)
    history.commit(5, code=OLD, status="unchanged", reason="code unchanged since 00000004")
    asv.load(store)
    pairs = queries.equal_code_pairs(store, "demo")
    assert [(pair.first_commit[:8], pair.second_commit[:8]) for pair in pairs] == [
        ("00000000", "00000001"),
        ("00000001", "00000004"),
    ]
    assert {(pair.machine, pair.workload, pair.implementation, pair.code_sha256) for pair in pairs} == {
        ("box", "w1", "warpwatch", OLD),
    }
    assert pairs[0].first_s == pytest.approx(1e-4, rel=0.01)


@given(st.lists(st.tuples(st.floats(1e-6, 1.0), st.floats(-0.01, 0.01)), min_size=5, max_size=50))
def test_the_spread_of_pairs_does_not_depend_on_their_order_or_unit(pairs: list[tuple[float, float]]) -> None:
    measured = [(value, value * (1 + change)) for value, change in pairs]
    spread, turned = equal_code_spread(measured), equal_code_spread([(2 * b, 2 * a) for a, b in measured])
    assert spread is not None
    assert turned is not None
    assert (turned.median, turned.most) == (pytest.approx(spread.median), pytest.approx(spread.most))
    assert 0 <= spread.median <= spread.most <= 0.0102
    assert equal_code_spread(measured[:4]) is None


def test_a_profile_appended_later_is_picked_up_and_a_newer_one_takes_its_place(store: Store, asv: Any) -> None:
    history = Suite(asv)
    path = history.commit(0, more={"ceilings": PEAKS})
    asv.load(store)
    (row,) = queries.overview(store, "demo")

    def found() -> Any:
        recorded = stored_history(store, row.series.key)
        assert recorded is not None
        return recorded.profile

    assert found() is None
    asv.context(path, _profile("run-0-0", 8e6))
    assert asv.load(store).warnings == ()
    assert found().dram_bytes == 8e6
    assert [reason for reason, _ in found().kernels[0].stalls] == ["long scoreboard", "wait"]
    ((point, rival),) = (roof.points for roof in queries.rooflines(store, "demo"))
    assert (point.intensity, point.measured_intensity) == (0.25, 0.125)
    assert rival.measured_intensity is None
    asv.context(path, _profile("run-0-0", 6e6))
    asv.load(store)
    assert found().dram_bytes == 6e6
    assert len(stored_history(store, row.series.key).points) == 1  # type: ignore[union-attr]


def test_a_profile_of_a_run_of_its_own_takes_no_values_along(store: Store, asv: Any) -> None:
    history = Suite(asv)
    path = history.commit(0)
    asv.context(
        path,
        {
            "record": "run",
            "schema": 1,
            "run": "profiler",
            "commit": "c",
            "environment": "e",
            "started_at": "2026-01-01T00:00:20+00:00",
            "device": "cuda",
            "gpu": {"name": "NVIDIA H200", "uuid": "GPU-x"},
        },
        _profile("profiler", 8e6),
    )
    asv.load(store)
    (row,) = queries.overview(store, "demo")
    recorded = stored_history(store, row.series.key)
    assert recorded is not None
    assert [point.run for point in recorded.points] == ["run-0-0"]
    assert recorded.profile is not None
    assert recorded.profile.run == "profiler"


def test_a_sample_of_a_history_has_some_of_its_series_whole(store: Store, asv: Any) -> None:
    history = Suite(asv, workloads=tuple(f"w{number}" for number in range(8)))
    for number in range(6):
        history.commit(number)
    asv.load(store)
    whole = queries.machine_history(store, "demo", "box")
    sample = queries.machine_history(store, "demo", "box", sample=5)
    assert whole is not None
    assert sample is not None
    assert (len(whole.series), len(sample.series)) == (queries.judged_times(store, "demo")["box"], 5)
    all_runs = {runs.series.key: runs.value.tolist() for runs in whole.series}
    assert all(all_runs[runs.series.key] == runs.value.tolist() for runs in sample.series)
    assert queries.machine_history(store, "demo", "nobody", sample=5) is None

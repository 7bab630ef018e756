"""Checks of commits that different GPUs measured."""

import shutil
from collections import Counter
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from tests.asv_results import hash_of
from tests.dashboard.suite_results import MATMUL, TRIAD, Suite
from warpwatch.dashboard.analysis.compare_commits import check
from warpwatch.dashboard.analysis.gpu_sessions import machine_sessions, pooled_noise, project_rooflines
from warpwatch.dashboard.analysis.trust import trust
from warpwatch.dashboard.importers.import_path import import_path
from warpwatch.dashboard.model.comparison import Comparison
from warpwatch.dashboard.model.verdict import NoiseSource, Verdict
from warpwatch.dashboard.store import Store, queries

_RESULTS = Path(__file__).parents[2] / "perf_suite/results"


def _check(store: Store, project: str, base: str, head: str) -> Comparison:
    ends = [queries.find_commit(store, project, each) for each in (base, head)]
    assert ends[0] is not None
    assert ends[1] is not None
    return check(store, project, ends[0], ends[1], threshold=0.02)


def _history(asv: Any, store: Store, workloads: int, **head: Any) -> Comparison:
    history = Suite(asv, workloads=tuple(f"w{number}" for number in range(workloads)))
    for number in range(4):
        history.commit(number)
    slower = dict.fromkeys(("eager", TRIAD, MATMUL), 1.02)
    history.commit(4, {"warpwatch": 0.6, **slower}, card="GPU-bbbbbbbb-1", **head)
    asv.load(store)
    return _check(store, "demo", hash_of(3), hash_of(4))


def test_a_change_across_gpus_is_a_verdict_with_its_references(sqlite_store: Store, asv: Any) -> None:
    found = _history(asv, sqlite_store, 45)
    assert {row.verdict for row in found.rows} == {Verdict.IMPROVED}
    for row in found.rows:
        assert row.estimate is not None
        assert row.across_gpus is not None
        assert row.estimate.noise_source is NoiseSource.REFERENCES
        assert row.estimate.ci_low < 0.6 / 1.02 - 1 < row.estimate.ci_high
        assert row.across_gpus.expected == pytest.approx(0.02, abs=0.01)
        assert row.across_gpus.references == 47  # and two canaries
    assert found.notes == (
        "box: base ran on GPU-aaaaaaaa, head on GPU-bbbbbbbb; 47 references changed by +2.2 % (median, subtracted)",
    )
    alike = _check(sqlite_store, "demo", hash_of(3), hash_of(3))
    assert all(row.across_gpus is None for row in alike.rows)


def test_too_few_references_are_reported_with_what_to_measure(sqlite_store: Store, asv: Any) -> None:
    found = _history(asv, sqlite_store, 5)
    assert {row.verdict for row in found.rows} == {Verdict.INCONCLUSIVE}
    assert {row.reason for row in found.rows} == {
        "not enough reference measurements (7 of 20): base was measured on GPU-aaaaaaaa and head on GPU-bbbbbbbb;"
        " measure both commits on one GPU"
    }
    assert {row.estimate for row in found.rows} == {None}


def test_baselines_are_no_references_between_two_versions_of_their_library(sqlite_store: Store, asv: Any) -> None:
    history = Suite(asv, workloads=tuple(f"w{number}" for number in range(45)))
    history.commit(0, more={"software": {"torch": "2.11"}})
    history.commit(1, card="GPU-bbbbbbbb-1", more={"software": {"torch": "2.12"}})
    asv.load(sqlite_store)
    found = _check(sqlite_store, "demo", hash_of(0), hash_of(1))
    assert {row.reason and row.reason.partition(":")[0] for row in found.rows} == {
        "not enough reference measurements (2 of 20)"
    }


def test_equal_machine_code_is_a_reference(sqlite_store: Store, asv: Any) -> None:
    history = Suite(asv, workloads=tuple(f"w{number}" for number in range(45)))
    history.commit(0, code="a" * 64)
    history.commit(1, {"warpwatch": 1.03, "eager": 1.03}, code="a" * 64, card="GPU-bbbbbbbb-1")
    asv.load(sqlite_store)
    found = _check(sqlite_store, "demo", hash_of(0), hash_of(1))
    assert {row.across_gpus.references for row in found.rows if row.across_gpus is not None} == {92}
    assert {row.verdict for row in found.rows} == {Verdict.UNCHANGED}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Three commits of the H200's history, each measured by other GPUs."""
    folder = tmp_path_factory.mktemp("recorded")
    machine = folder / "results" / "nvidia-h200"
    machine.mkdir(parents=True)
    shutil.copy(_RESULTS / "benchmarks.json", folder / "results")
    shutil.copy(_RESULTS / "nvidia-h200/machine.json", machine)
    for commit in ("d0418de8", "0aec5df1", "787295a5"):
        for path in (_RESULTS / "nvidia-h200").glob(f"{commit}-*"):
            shutil.copy(path, machine)
    store = Store(str(folder / "store.db"))
    import_path(store, folder / "results", project="recorded")
    return store


def test_the_attention_kernels_of_hopper_improved_across_gpus(recorded: Store) -> None:
    found = _check(recorded, "recorded", "d0418de8", "0aec5df1")
    latencies = [row for row in found.rows if row.series.metric == "latency"]
    improved = [row for row in latencies if row.verdict is Verdict.IMPROVED]
    assert len(improved) >= 40
    assert Counter(row.kernel for row in improved).most_common(1)[0][0] == "flash_attention"
    assert not [row for row in latencies if row.verdict is Verdict.REGRESSED]


def test_where_nothing_moved_nothing_is_reported(recorded: Store) -> None:
    found = _check(recorded, "recorded", "0aec5df1", "787295a5")
    latencies = Counter(row.verdict for row in found.rows if row.series.metric == "latency")
    assert latencies[Verdict.REGRESSED] + latencies[Verdict.IMPROVED] <= 2
    assert latencies[Verdict.UNCHANGED] > 200


def test_recorded_references_that_are_left_out_lie_in_their_intervals(recorded: Store) -> None:
    rooflines = project_rooflines(recorded, "recorded", queries.project_workloads(recorded, "recorded"))
    sessions = machine_sessions(recorded, "recorded", "nvidia-h200", rooflines)
    standardised = [
        abs(each.deviation)
        for (_, family), pairs in sessions.items()
        if family == "latency"
        for pair in pairs
        for each in pair.references
    ]
    assert len(standardised) > 1000
    assert sum(each < 2.776 for each in standardised) / len(standardised) > 0.88  # before the series' own scatter


def test_the_noise_of_a_short_history_is_estimated_from_neighbouring_sessions(recorded: Store) -> None:
    history = queries.machine_history(recorded, "recorded", "nvidia-h200")
    assert history is not None
    pooled = pooled_noise(recorded, "recorded", "nvidia-h200")
    known = trust(history, threshold=0.01, pooled=pooled).detectable
    assert NoiseSource.ASSUMED not in {each.source for each in known}
    assert 0.001 < median(each.noise for each in known if each.series.metric.is_latency) < 0.005
    assumed = trust(history, threshold=0.01).detectable
    assert median(each.changes[0] for each in known) < 0.8 * median(each.changes[0] for each in assumed)

"""The trust report of five recorded runs of one commit on an H200, and of less trusted machines."""

import gzip
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.asv_results import AsvResults, hash_of
from tests.dashboard.suite_results import Suite
from warpwatch.ci.runner.trust_report import TrustError, as_text, trust_report, verdict
from warpwatch.dashboard.importers.asv_folder import open_folder
from warpwatch.dashboard.importers.import_asv import import_results
from warpwatch.dashboard.store import Store

LISTED = Path(__file__).parents[3] / "perf_suite/results/benchmarks.json"
RECORDED = sorted((Path(__file__).parents[3] / "perf_suite/trials/repeatability-h200").glob("run-*.json.gz"))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store(f"sqlite:///{tmp_path / 'trust.db'}")
    yield opened
    opened.close()


@pytest.fixture
def asv(tmp_path: Path) -> AsvResults:
    return AsvResults(tmp_path / "results")


def test_the_recorded_h200_is_trusted(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "results" / "nvidia-h200"
    folder.mkdir(parents=True)
    shutil.copy(LISTED, tmp_path / "results" / "benchmarks.json")
    for path in RECORDED:
        text = gzip.decompress(path.read_bytes())
        (folder / "368912a4-env.json").write_bytes(text)
        import_results(store, open_folder(tmp_path / "results", project="warpwatch"), workers=1)
    commit = json.loads(text)["commit_hash"]
    report = trust_report(store, "warpwatch", commit, threshold=0.02)
    assert (report.machine, report.runs) == ("nvidia-h200", 5)
    assert report.trust.same_session is not None
    assert report.trust.same_session.alarms.count == 0
    changes = sorted(each.changes[1] for each in report.trust.detectable)
    assert verdict(report).startswith("trusted: no false alarm, no throttling, and half of the series detect 2.1")
    assert changes[len(changes) // 2] < 0.022
    text_ = as_text(report)
    assert "by up to 5 runs of a commit" in text_
    assert f"for half of {len(changes)} series" in text_


def _report(store: Store, asv: AsvResults, number: int) -> str:
    asv.load(store)
    return verdict(trust_report(store, "demo", hash_of(number), threshold=0.02))


def test_a_false_alarm_means_no_trust(store: Store, asv: AsvResults) -> None:
    history = Suite(asv, workloads=tuple(f"w{number}" for number in range(8)))
    for number in range(20):
        history.commit(number, code="same")
    asv.load(store)
    history.commit(20, {"warpwatch": 1.2}, code="same")
    for hour in (1, 2):
        asv.load(store)
        history.commit(20, {"warpwatch": 1.2}, code="same", hour=hour)
    assert _report(store, asv, 20).startswith("not trusted: equal code was reported as changed")


def test_one_run_is_not_enough(store: Store, asv: AsvResults) -> None:
    Suite(asv).commit(0)
    assert _report(store, asv, 0) == "unknown: needs 3 runs of one commit in one session"


def test_trust_in_a_noisy_machine_is_limited(store: Store, asv: AsvResults) -> None:
    history = Suite(asv, workloads=tuple(f"w{number}" for number in range(8)))
    for hour, factor in enumerate((1.0, 1.1, 0.95, 1.08)):
        history.commit(0, dict.fromkeys(history.levels, factor), hour=hour)
        asv.load(store)
    assert "half of the series are too noisy to detect less than" in _report(store, asv, 0)


def test_a_commit_without_results_is_named(store: Store) -> None:
    with pytest.raises(TrustError, match="aaaaaaaa has no results"):
        trust_report(store, "demo", "a" * 40, threshold=0.02)

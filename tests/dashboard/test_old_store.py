"""A store that the first schema's code wrote (commit 71549b2^), opened with today's: nothing lost, nothing doubled."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tests.asv_results import AsvResults
from warpwatch.dashboard.store import Store
from warpwatch.dashboard.trials.store_state import State, state_of

RECORDED = Path(__file__).with_name("recorded") / "store-0001.db.gz"
COMMITS = 12


@pytest.fixture
def same(asv: AsvResults) -> AsvResults:
    """The results that the recorded store was imported from: samples, none, failed, absent, not finite, counts."""
    sizes = ["16", "256", "4096", "65536"]
    asv.benchmark("suite.Time.time_it", size=sizes)
    asv.benchmark("suite.Count.track_it", unit="bytes")
    for number in range(COMMITS):
        level = 1e-3 if number < COMMITS // 2 else 1.3e-3
        values: list[Any] = [level * (n + 1) * (1 + number % 3 / 1000) for n in range(len(sizes))]
        samples = [[value * (1 + k / 1000) for k in range(5)] for value in values]
        started = number * 1000 + 1
        rows = {
            "suite.Time.time_it": asv.row(values, [sizes], started_at=started, spread=0.004, samples=samples),
            "suite.Odd.time_it": asv.row([None, float("nan"), float("inf"), 1e-5], [sizes], started_at=started + 1),
            "suite.Count.track_it": asv.row([4096 + number // 4], started_at=started + 2),
        }
        asv.commit(number, rows)
    return asv


@pytest.fixture
def old(tmp_path: Path) -> Store:
    """The recorded store, brought to today's schema."""
    path = tmp_path / "old.db"
    path.write_bytes(gzip.decompress(RECORDED.read_bytes()))
    return Store(str(path))


def _but_for_names(state: State) -> dict[str, Any]:
    """Names of runs and marks are digests, of which the old code had others."""
    kept: dict[str, Any] = {kind: rows for kind, rows in state.items() if kind not in {"runs", "marks"}}
    kept["runs"] = sorted(started for _, started, _ in state["runs"])
    for kind in ("points", "samples"):
        kept[kind] = sorted((row[0], row[1], *row[3:]) for row in state[kind])
    return kept


def test_an_old_store_is_what_an_import_makes_today(old: Store, same: AsvResults, sqlite_store: Store) -> None:
    same.load(sqlite_store)
    before = _but_for_names(state_of(old))
    summary = same.load(old)
    assert (summary.points, summary.unchanged) == (0, COMMITS)
    state, expected = _but_for_names(state_of(old)), _but_for_names(state_of(sqlite_store))
    assert state == expected
    assert {kind: before[kind] for kind in ("points", "samples", "commits", "files")} == {
        kind: expected[kind] for kind in ("points", "samples", "commits", "files")
    }
    assert len(state["points"]) == COMMITS * 9
    assert len(state["changes"]) > 0


def test_a_file_saved_again_adds_to_an_old_store_only_what_is_new(old: Store, same: AsvResults) -> None:
    path = next((same.folder / "box").glob("00000005*.json"))
    data = json.loads(path.read_text())
    data["results"]["suite.New.time_it"] = same.row([1.5], started_at=9)
    path.write_text(json.dumps(data))
    assert same.load(old).points == 1

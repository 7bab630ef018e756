"""Real results of two other projects go in whole."""

import json
from pathlib import Path

import pytest

from tests.stored import stored_history
from warpwatch.dashboard.analysis.series_analysis import analyse
from warpwatch.dashboard.importers.asv_folder import open_folder
from warpwatch.dashboard.importers.import_asv import import_results
from warpwatch.dashboard.store import Store, queries

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"


def _import(store: Store, name: str) -> None:
    folder = SHARED / name
    if not folder.is_dir():
        pytest.skip(f"{folder} is not on this machine")
    summary = import_results(store, open_folder(folder))
    analyse(store)
    assert (summary.project, summary.set_aside, summary.warnings) == (name, (), ())
    expected = {}
    for path in folder.glob("*/*-*.json"):
        data = json.loads(path.read_bytes())
        for benchmark, row in data["results"].items():
            for n, value in enumerate(row[0] or ()):
                expected[data["commit_hash"], benchmark, n] = value
    recorded = {}
    for series in queries.find_series(store, name, limit=10_000).series:
        history = stored_history(store, series.key)
        assert history is not None
        recorded.update(
            {(point.commit.hash, series.key): point.value for point in history.points if point.value is not None}
        )
    numbers = sorted(float(value) for value in expected.values() if value is not None)
    assert sorted(value for value in recorded.values() if value is not None) == numbers


def test_mujoco_warps_gpu_results(sqlite_store: Store) -> None:
    _import(sqlite_store, "mjwarp-asv")
    units = {
        series.parameters[0][1]: series.metric.unit
        for series in queries.find_series(sqlite_store, "mjwarp-asv", search="AlohaPot", limit=100).series
    }
    assert units["device_memory_allocated"] == "bytes"
    assert units["solver_niter_mean"] == "count"
    assert units["jit_duration"] == "seconds"
    assert units["step.forward"] == "unit"
    (machine,) = queries.machines(sqlite_store, "mjwarp-asv")
    assert machine.name == "adenzler-asv-runner"
    # A jump of 34 times at one commit is in the data; whatever else is found, that is.
    largest = max(
        one.change.magnitude for group in queries.regressions(sqlite_store, "mjwarp-asv") for one in group.regressions
    )
    assert largest > 30


def test_sunpys_years_of_history(sqlite_store: Store) -> None:
    _import(sqlite_store, "sunpy")
    (project,) = queries.projects(sqlite_store)
    assert (project.commits, project.machines, project.series) == (1396, 1, 10)
    commits = queries.commits(sqlite_store, "sunpy", limit=2000)
    assert [commit.date for commit in commits] == sorted((commit.date for commit in commits), reverse=True)

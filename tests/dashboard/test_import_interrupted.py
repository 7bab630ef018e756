"""An import that is killed, and two at once: nothing lost, nothing twice. Real processes, both databases."""

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select

from warpwatch.dashboard.store import Store, queries, schema

COMMITS, COMBINATIONS = 40, 60
_IMPORT = """
import sys
from pathlib import Path
from warpwatch.dashboard.analysis.series_analysis import analyse
from warpwatch.dashboard.importers.asv_folder import open_folder
from warpwatch.dashboard.importers import import_asv as importing
from warpwatch.dashboard.importers.import_asv import import_results
from warpwatch.dashboard.store import Store
importing._AT_ONCE = 300
store = Store(sys.argv[2])
print("ready", flush=True)
summary = import_results(store, open_folder(Path(sys.argv[1]), project="demo"))
analyse(store)
assert not summary.set_aside, summary.set_aside
"""


@pytest.fixture
def results(asv: Any) -> Path:
    """Forty commits of sixty combinations, each with samples."""
    params = [[str(n) for n in range(COMBINATIONS)]]
    for number in range(COMMITS):
        values = [1.0 + number / 1000 + n for n in range(COMBINATIONS)]
        samples = [[value] * 5 for value in values]
        row = asv.row(values, params, started_at=number + 1, spread=0.01, samples=samples)
        asv.commit(number, {"suite.Bench.track_latency": row})
    return Path(asv.folder)


def _start(results: Path, database: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", _IMPORT, str(results), database]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _state(database: str) -> dict[str, int]:
    store = Store(database)
    with store.read() as connection:
        counts = {
            name: connection.execute(select(func.count()).select_from(schema.metadata.tables[name])).scalar_one()
            for name in ("run", "series", "commit", "source_file", "summary", "recorded")
        }
        for name, table in (("points", schema.chunk), ("sampled", schema.sample_chunk)):
            counts[name] = connection.execute(select(func.coalesce(func.sum(table.c.points), 0))).scalar_one()
        counts["stale"] = connection.execute(
            select(func.count()).select_from(schema.series).where(schema.series.c.stale)
        ).scalar_one()
        counts["unplaced"] = connection.execute(
            select(func.count()).select_from(schema.commit).where(schema.commit.c.position.is_(None))
        ).scalar_one()
    store.close()
    return counts


WHOLE = {
    "points": COMMITS * COMBINATIONS,
    "sampled": COMMITS * COMBINATIONS,
    "run": COMMITS,
    "series": COMBINATIONS,
    "commit": COMMITS,
    "source_file": COMMITS,
    "summary": COMBINATIONS,
    "recorded": COMMITS,
    "stale": 0,
    "unplaced": 0,
}


def test_an_import_killed_at_any_moment_is_made_whole_by_the_next(results: Path, database: str) -> None:
    """The first kill strikes before anything is in, the others when some files more are."""
    killed, state = 0, _state(database)
    for _ in range(5):
        process = _start(results, database)
        assert process.stdout is not None
        process.stdout.readline()
        while killed and process.poll() is None and _state(database)["source_file"] == state["source_file"]:
            pass
        process.kill()
        process.communicate()
        killed += process.returncode == -signal.SIGKILL
        state = _state(database)
        # What a killed import left is whole files.
        assert state["points"] == state["sampled"] == state["source_file"] * COMBINATIONS
        assert state["run"] == state["commit"] == state["recorded"] == state["source_file"]
    assert killed
    last = _start(results, database)
    assert last.communicate(timeout=120)[1] == ""
    assert _state(database) == WHOLE


def test_two_imports_at_once_add_everything_once(results: Path, database: str) -> None:
    both = [_start(results, database) for _ in range(2)]
    errors = [process.communicate(timeout=120)[1] for process in both]
    assert errors == ["", ""]
    assert _state(database) == WHOLE


def test_pages_can_be_read_during_an_import(results: Path, database: str) -> None:
    Store(database).close()
    process = _start(results, database)
    store = Store(database)
    while process.poll() is None:
        for row in queries.overview(store, "demo"):
            assert row.value is not None
        queries.regressions(store, "demo")
    store.close()
    assert process.returncode == 0

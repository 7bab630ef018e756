"""An import that is killed, and two at once: nothing lost, nothing twice. Real processes, both databases."""

import contextlib
import multiprocessing
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select

from warpwatch.dashboard.analysis.series_analysis import analyse
from warpwatch.dashboard.importers import import_asv as importing
from warpwatch.dashboard.importers.asv_folder import open_folder
from warpwatch.dashboard.importers.import_asv import import_results
from warpwatch.dashboard.store import Store, queries, schema

COMMITS, COMBINATIONS = 40, 60


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


def _import(results: Path, database: str, ready: Any, output: Path) -> None:
    with output.open("w", buffering=1) as file, contextlib.redirect_stderr(file):
        os.dup2(file.fileno(), 2)
        importing._AT_ONCE = 300
        store = Store(database)
        ready.set()
        summary = import_results(store, open_folder(results, project="demo"))
        analyse(store)
        assert not summary.set_aside, summary.set_aside


class _Process:
    """An import in a process of its own, forked: a fresh interpreter takes longer to load than the import."""

    def __init__(self, results: Path, database: str) -> None:
        context = multiprocessing.get_context("fork")
        ready, self._output = context.Event(), results.with_name(f"stderr-{os.urandom(4).hex()}")
        self._process = context.Process(target=_import, args=(results, database, ready, self._output))
        self._process.start()
        assert ready.wait(60)

    @property
    def is_alive(self) -> bool:
        return self._process.is_alive()

    def kill(self) -> int:
        """Exit status: -SIGKILL unless it had ended before."""
        self._process.kill()
        return self.ended()[0]

    def ended(self) -> tuple[int, str]:
        """Exit status and standard error of an import that runs to its end."""
        self._process.join(120)
        assert self._process.exitcode is not None
        return self._process.exitcode, self._output.read_text()


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
        process = _Process(results, database)
        while killed and process.is_alive and _state(database)["source_file"] == state["source_file"]:
            pass
        killed += process.kill() == -signal.SIGKILL
        state = _state(database)
        # What a killed import left is whole files.
        assert state["points"] == state["sampled"] == state["source_file"] * COMBINATIONS
        assert state["run"] == state["commit"] == state["recorded"] == state["source_file"]
    assert killed
    assert _Process(results, database).ended() == (0, "")
    assert _state(database) == WHOLE


def test_two_imports_at_once_add_everything_once(results: Path, database: str) -> None:
    both = [_Process(results, database) for _ in range(2)]
    assert [process.ended() for process in both] == [(0, "")] * 2
    assert _state(database) == WHOLE


def test_pages_can_be_read_during_an_import(results: Path, database: str) -> None:
    process = _Process(results, database)
    store = Store(database)
    while process.is_alive:
        for row in queries.overview(store, "demo"):
            assert row.value is not None
        queries.regressions(store, "demo")
    store.close()
    assert process.ended() == (0, "")

"""Series and projects that go while an import is at work, which remembers their ids: nothing lost, nothing astray."""

import json
import multiprocessing
import os
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from sqlalchemy import update

from tests.asv_results import START_MS, AsvResults, hash_of
from tests.stored import stored_history
from tools.store_state import state_of
from warpwatch.dashboard.analysis.series_analysis import analyse
from warpwatch.dashboard.cli.compact import retention
from warpwatch.dashboard.importers import import_asv as importing
from warpwatch.dashboard.importers.asv import read_result
from warpwatch.dashboard.importers.asv_folder import open_folder
from warpwatch.dashboard.importers.import_asv import import_results
from warpwatch.dashboard.model.result_file import BenchmarkSpec, ResultFile
from warpwatch.dashboard.store import Store, queries, schema
from warpwatch.dashboard.store.project_writer import ProjectWriter
from warpwatch.dashboard.store.retention import RetentionPolicy, compact, drop_project, reclaim

BENCH, GONE, NEW = (f"suite.{name}.time_it" for name in ("Bench", "Gone", "New"))
COMMITS = 30


def _writer(store: Store, project: str = "demo") -> ProjectWriter:
    return ProjectWriter(store, project, repository=None, listed=None)


def _values(store: Store, project: str, benchmark: str) -> list[float | None]:
    found = queries.find_series(store, project, search=benchmark).series
    if not found:
        return []
    history = stored_history(store, found[0].key)
    assert history is not None
    return [point.value for point in history.points]


@pytest.fixture
def write() -> Callable[..., None]:
    """Writes a value of a benchmark at a commit, as a file that says itself what its benchmark is."""

    def write(writer: ProjectWriter, number: int, benchmark: str) -> None:
        values = {benchmark: float(number)}
        text = {"commit_hash": hash_of(number), "date": START_MS + number, "params": {"machine": "box"}}
        writer.write(f"{number}.json", f"digest {number}", _read(text, values), "box", None)

    return write


def _read(head: dict[str, Any], values: dict[str, float]) -> ResultFile:
    read = read_result(json.dumps({**head, "results": values}).encode(), f"{head['commit_hash'][:8]}-env.json")
    return replace(read, listed={name: BenchmarkSpec(unit="seconds") for name in values})


def test_an_import_makes_a_series_again_that_was_removed_under_it(store: Store, write: Callable[..., None]) -> None:
    """SQLite gives the removed series' id to the next that comes."""
    writer = _writer(store)
    for number, benchmark in ((1, BENCH), (2, GONE), (3, BENCH)):
        write(writer, number, benchmark)
    analyse(store)
    with store.write("demo") as connection:
        connection.execute(update(schema.series).where(schema.series.c.id == 2).values(listed=False))
    assert compact(store, "demo", RetentionPolicy(unlisted_days=0)).series_removed == 1
    write(_writer(store), 4, NEW)
    write(writer, 5, GONE)
    write(writer, 6, BENCH)
    assert [_values(store, "demo", name) for name in (BENCH, GONE, NEW)] == [[1.0, 3.0, 6.0], [5.0], [4.0]]


def test_an_import_makes_its_project_again_that_was_dropped_under_it(store: Store, write: Callable[..., None]) -> None:
    writer = _writer(store)
    write(writer, 1, BENCH)
    write(writer, 2, GONE)
    drop_project(store, "demo")
    write(_writer(store, "other"), 3, NEW)
    write(writer, 4, BENCH)
    assert (_values(store, "demo", BENCH), _values(store, "demo", GONE)) == ([4.0], [])
    assert _values(store, "other", NEW) == [3.0]
    assert not _writer(store).has("1.json", "digest 1")


@pytest.fixture
def results(asv: AsvResults) -> AsvResults:
    sizes = [str(n) for n in range(10)]
    asv.benchmark(BENCH, size=sizes)
    for number in range(COMMITS):
        values = [(1 + n) * (1.0 if number < COMMITS // 2 else 1.2) + number % 5 / 1000 for n in range(10)]
        samples = [[value, value * 1.001] for value in values]
        asv.commit(number, {BENCH: asv.row(values, [sizes], started_at=number + 1, spread=0.01, samples=samples)})
    return asv


def _import(folder: Path, database: str) -> None:
    importing._AT_ONCE = 1  # a transaction a file
    store = Store(database)
    summary = import_results(store, open_folder(folder, project="demo"), workers=1)
    analyse(store)
    store.close()
    os._exit(1 if summary.set_aside or summary.warnings else 0)


def test_an_import_and_compactions_at_once_lose_nothing(results: AsvResults, database: str, tmp_path: Path) -> None:
    process = multiprocessing.get_context("fork").Process(target=_import, args=(results.folder, database))
    process.start()
    store = Store(database)
    while process.is_alive():
        compact(store, "demo", RetentionPolicy(unlisted_days=0))
        reclaim(store)
    process.join()
    assert process.exitcode == 0
    whole = Store(str(tmp_path / "whole.db"))
    results.load(whole)
    assert state_of(store) == state_of(whole)
    whole.close()
    store.close()


def test_a_database_that_stays_busy_ends_a_compaction_with_a_sentence(
    tmp_path: Path, results: AsvResults, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("warpwatch.dashboard.store.engine._LOCK_TIMEOUT_S", 0.1)
    path = tmp_path / "history.db"
    store = Store(str(path))
    results.load(store)
    store.close()
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    policy = tmp_path / "policy.toml"
    policy.write_text("samples_days = 0\n")
    done = CliRunner().invoke(retention, [str(policy), "--database", str(path)])
    assert done.exit_code == 70
    assert done.output == (
        "Error: the database failed: database is locked. Completed work is stored; run it again to do the rest\n"
    )
    other.rollback()
    other.close()

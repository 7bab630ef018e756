"""Imports in adversity: killed, two at once, files that are cut off or grow, clocks that jump. Nothing lost or doubled.

`tools/import_faults.py` kills many more.
"""

import json
import multiprocessing
import os
import random
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Table, func, select

from tests.asv_results import START_MS, AsvResults, hash_of
from tests.stored import stored_history
from tools.killing import kill_import
from tools.store_state import State, state_of
from warpwatch.dashboard.analysis import series_analysis
from warpwatch.dashboard.analysis.series_analysis import analyse
from warpwatch.dashboard.importers import import_asv
from warpwatch.dashboard.importers import import_asv as importing
from warpwatch.dashboard.importers.asv import read_result
from warpwatch.dashboard.importers.asv_folder import open_folder
from warpwatch.dashboard.importers.import_asv import FileToRead, import_results, read_file
from warpwatch.dashboard.store import Store, queries, schema
from warpwatch.dashboard.store.project_writer import ProjectWriter

BENCH = "suite.Bench.time_it"
COMMITS, COMBINATIONS = 24, 15


@pytest.fixture
def results(asv: AsvResults) -> AsvResults:
    """Twenty-four commits of fifteen combinations with samples."""
    sizes = [str(n) for n in range(COMBINATIONS)]
    asv.benchmark(BENCH, size=sizes)
    for number in range(COMMITS):
        values = [(1 + n) * (1.0 if number < COMMITS // 2 else 1.2) + number % 5 / 1000 for n in range(COMBINATIONS)]
        samples = [[value, value * 1.001] for value in values]
        asv.commit(number, {BENCH: asv.row(values, [sizes], started_at=number + 1, spread=0.01, samples=samples)})
    return asv


def _import(folder: Path, database: str, ready: Any = None) -> None:
    """Many transactions, readers and analysts, as a large folder has them."""
    os.setpgid(0, 0)
    importing._AT_ONCE, importing._WORTH_PROCESSES, series_analysis._WORTH_PROCESSES, series_analysis._AT_ONCE = (
        5_000,
        1,
        1,
        2,
    )
    if ready is not None:
        ready.set()
    store = Store(database)
    summary = import_results(store, open_folder(folder, project="demo"), workers=2)
    analyse(store)
    store.close()
    os._exit(1 if summary.set_aside or summary.warnings else 0)


def _start(folder: Path, database: str) -> Any:
    context = multiprocessing.get_context("fork")
    ready = context.Event()
    process = context.Process(target=_import, args=(folder, database, ready))
    process.start()
    ready.wait()
    return process


def _state(database: str) -> State:
    store = Store(database)
    try:
        return state_of(store)
    finally:
        store.close()


@pytest.fixture
def whole(results: AsvResults, tmp_path: Path) -> State:
    """What an undisturbed import stores."""
    store = Store(str(tmp_path / "whole.db"))
    results.load(store)
    state = state_of(store)
    store.close()
    assert len(state["points"]) == len(state["samples"]) == COMMITS * COMBINATIONS
    assert not any(stale for *_, stale in state["series"])
    return state


@pytest.mark.parametrize("seed", range(2))
def test_what_a_kill_leaves_the_next_import_makes_whole(
    results: AsvResults, database: str, whole: State, seed: int
) -> None:
    """Kills strike when a moment's share of the files or of the findings is in; the process alone, or all of it."""
    moments, store = random.Random(seed), Store(database)
    for is_analysis in (False, True):
        process = _start(results.folder, database)
        share = moments.uniform(0.1, 0.7)
        while process.is_alive():
            done = _summaries(store) / COMBINATIONS if is_analysis else _files(store) / COMMITS
            if done >= share or (is_analysis and share < 0.4 and _files(store) == COMMITS):
                break
        kill_import(process, alone=moments.random() < 0.5)
        left = state_of(store)
        assert len(left["points"]) == len(left["samples"]) == COMBINATIONS * len(left["files"])
        assert len(left["runs"]) == len(left["commits"]) == len(left["files"])
    store.close()
    last = _start(results.folder, database)
    last.join()
    assert last.exitcode == 0
    assert _state(database) == whole


def _files(store: Store) -> int:
    return _count(store, schema.source_file)


def _summaries(store: Store) -> int:
    return _count(store, schema.summary)


def _count(store: Store, table: Table) -> int:
    with store.read() as connection:
        return connection.execute(select(func.count()).select_from(table)).scalar_one()


def test_two_imports_of_one_folder_and_one_of_another_at_once(
    results: AsvResults, database: str, whole: State, tmp_path: Path
) -> None:
    other = AsvResults(tmp_path / "other")
    other.commit(1, {BENCH: other.row([1.0])}, machine="another box")
    processes = [_start(folder, database) for folder in (results.folder, results.folder, other.folder)]
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0, 0]
    state = _state(database)
    keys = {row[0] for row in whole["points"]}
    assert [row for row in state["points"] if row[0] in keys] == whole["points"]
    assert len(state["points"]) == len(whole["points"]) + 1
    assert state["samples"] == whole["samples"]


def test_a_file_cut_off_anywhere_is_set_aside_and_taken_when_whole(sqlite_store: Store, asv: AsvResults) -> None:
    asv.commit(1, {BENCH: asv.row([1.0])})
    path = asv.commit(2, {BENCH: asv.row([2.0, float("nan")], [["1", "2"]], samples=[[2.0], None])})
    text = path.read_bytes()
    ends = [0, 1, 2, len(text) - 1, len(text) // 2]
    ends += [text.index(mark) + 1 for mark in (b"commit_hash", b"null", b"NaN", b"date", b'"results": {', b"[[")]
    for end in ends:
        path.write_bytes(text[:end])
        summary = import_results(sqlite_store, open_folder(asv.folder, project="demo"))
        assert [line.startswith(f"{path}: not JSON") for line in summary.set_aside] == [True], end
    path.write_bytes(text)
    assert import_results(sqlite_store, open_folder(asv.folder, project="demo")).points == 2
    assert len(state_of(sqlite_store)["points"]) == 3


@pytest.mark.parametrize("read_first", [0.5, 1.0])
def test_a_file_that_grows_or_changes_while_it_is_read_is_read_again(
    sqlite_store: Store, asv: AsvResults, monkeypatch: pytest.MonkeyPatch, read_first: float
) -> None:
    monkeypatch.setattr(import_asv, "_FRESH_NS", 0)
    path = asv.commit(1, {BENCH: asv.row([1.0], started_at=1)})
    text = path.read_text()
    path.write_text(text[: int(len(text) * read_first)])
    read = import_asv.read_regular

    def read_and_write(path: Path, most: int) -> bytes:
        found = read(path, most)
        asv.commit(1, {BENCH: asv.row([2.0], started_at=2)})
        return found

    monkeypatch.setattr(import_asv, "read_regular", read_and_write)
    summary = import_results(sqlite_store, open_folder(asv.folder, project="demo"))
    assert len(summary.set_aside) == (read_first < 1)
    monkeypatch.setattr(import_asv, "read_regular", read)
    assert import_results(sqlite_store, open_folder(asv.folder, project="demo")).points == 1
    assert _values(sqlite_store) == ([2.0] if read_first < 1 else [1.0, 2.0])


def test_a_context_file_still_being_written_costs_no_value(sqlite_store: Store, asv: AsvResults) -> None:
    path = asv.commit(1, {BENCH: asv.row([1.0])})
    path.with_name(path.stem + ".context.jsonl").write_bytes(b'{"record": "run", "schema": 1, "run": "r1", "com')
    assert asv.load(sqlite_store).points == 1


_HOSTILE_ROWS: dict[str, Any] = {
    "huge integer": [[10**400], []],
    "object for a value": [[{"a": 1}], []],
    "true for a value": [[True], []],
    "text for a value": [["\x00\ud800"], []],
    "nested value": [[[[[1.0]]]], []],
    "values that are text": ["1.0", []],
    "row that is a number": 10**400,
    "huge start": [[1.0], [], "1", 10**400, 1e400],
    "negative start": [[1.0], [], "1", -1],
    "params of numbers": [[1.0], [[1e400]]],
}


@pytest.mark.parametrize("name", _HOSTILE_ROWS)
def test_a_row_of_wrong_types_costs_no_more_than_itself(store: Store, asv: AsvResults, name: str) -> None:
    asv.commit(1, {BENCH: asv.row([1.0]), "suite.Odd.time_it": _HOSTILE_ROWS[name]})
    asv.commit(2, {BENCH: asv.row([2.0], started_at=2)})
    summary = asv.load(store)
    assert summary.set_aside == ()
    assert _values(store) == [1.0, 2.0]
    assert import_results(store, open_folder(asv.folder, project="demo")).points == 0


def test_a_file_without_any_value_is_taken(store: Store, asv: AsvResults) -> None:
    asv.commit(1, {BENCH: asv.row([], [[]])})
    summary = asv.load(store)
    assert (summary.files, summary.points, summary.set_aside, summary.warnings) == (1, 0, (), ())


def test_two_writers_that_meet_a_new_series_in_turn_both_write_it(store: Store) -> None:
    """The second has read which series there are before the first makes one more."""
    one, other = (ProjectWriter(store, "demo", repository=None, listed=None) for _ in range(2))
    _write(one, 1, "suite.Other.time_it")
    _write(other, 2, BENCH)
    _write(one, 3, BENCH)
    assert _values(store) == [2.0, 3.0]


def _write(writer: ProjectWriter, number: int, benchmark: str) -> None:
    results = {"commit_hash": hash_of(number), "date": START_MS + number, "params": {"machine": "box"}}
    text = json.dumps({**results, "results": {benchmark: float(number)}}).encode()
    writer.write(f"{number}.json", f"digest {number}", read_result(text, f"{number}-env.json"), "box", None)


def test_a_reader_sees_one_state_while_others_write(database: str, results: AsvResults) -> None:
    store = Store(database)
    with store.read() as connection:
        before = connection.execute(select(func.count()).select_from(schema.run)).scalar_one()
        results.load(store)
        assert connection.execute(select(func.count()).select_from(schema.run)).scalar_one() == before == 0
    store.close()
    assert len(_state(database)["runs"]) == COMMITS


def test_of_a_key_that_stands_twice_one_counts_and_once(sqlite_store: Store, asv: AsvResults) -> None:
    path = asv.commit(1, {BENCH: asv.row([1.0])})
    row = json.dumps(asv.row([2.0]))
    path.write_text(path.read_text().replace('"results": {', f'"results": {{"{BENCH}": {row}, '))
    asv.load(sqlite_store)
    assert len(_values(sqlite_store)) == 1


@pytest.mark.parametrize("benchmarks", [b"[" * 200_000, b"\xff\xfe", b"[]", b'{"a": {"param_names": 1}}', b'{"a": 1}'])
def test_a_hostile_list_of_benchmarks_costs_units_and_names_alone(
    sqlite_store: Store, asv: AsvResults, benchmarks: bytes
) -> None:
    asv.commit(1, {BENCH: asv.row([1.0])})
    (asv.folder / "benchmarks.json").write_bytes(benchmarks)
    (asv.folder / "box" / "machine.json").write_bytes(benchmarks)
    asv.load(sqlite_store)
    assert _values(sqlite_store) == [1.0]


def test_commits_of_1970_and_of_the_far_future_are_in_and_in_order(store: Store, asv: AsvResults) -> None:
    dates = {1: START_MS, 2: 0, 3: START_MS * 3, 4: START_MS + 1}
    for number, date in dates.items():
        path = asv.commit(number, {BENCH: asv.row([float(number)], started_at=number)})
        path.write_text(path.read_text().replace(f'"date": {START_MS + number * 3_600_000}', f'"date": {date}'))
    assert asv.load(store).set_aside == ()
    assert _values(store) == [2.0, 1.0, 4.0, 3.0]


@pytest.mark.parametrize("mtime_s", [0, -1000, 1_000_000_000, 7_258_118_400])
def test_a_change_is_noticed_whatever_the_clock_says(
    sqlite_store: Store, asv: AsvResults, monkeypatch: pytest.MonkeyPatch, mtime_s: int
) -> None:
    """The file's time goes backwards, or stands still at other content of the same size."""
    monkeypatch.setattr("warpwatch.dashboard.importers.import_asv._FRESH_NS", 0)
    path = asv.commit(1, {BENCH: asv.row([1.5], started_at=1)})
    os.utime(path, (mtime_s, mtime_s))
    asv.load(sqlite_store)
    assert asv.load(sqlite_store).unchanged == 1
    asv.commit(1, {BENCH: asv.row([2.5], started_at=2)})
    os.utime(path, (mtime_s, mtime_s))
    assert asv.load(sqlite_store).points == 1
    assert _values(sqlite_store) == [1.5, 2.5]


def test_the_importers_own_clock_may_jump(
    sqlite_store: Store, asv: AsvResults, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = time.time_ns
    asv.commit(1, {BENCH: asv.row([1.5], started_at=1)})
    for value, years in ((2.5, 30), (3.5, -30), (4.5, 0)):
        monkeypatch.setattr(time, "time_ns", lambda years=years: real() + years * 365 * 86_400 * 10**9)
        asv.load(sqlite_store)
        asv.commit(1, {BENCH: asv.row([value], started_at=int(value))})
        assert asv.load(sqlite_store).points == 1
    assert _values(sqlite_store) == [1.5, 2.5, 3.5, 4.5]


def test_a_folder_that_moves_adds_nothing(sqlite_store: Store, results: AsvResults, tmp_path: Path) -> None:
    results.load(sqlite_store)
    before = state_of(sqlite_store)
    shutil.move(results.folder, tmp_path / "moved")
    summary = import_results(sqlite_store, open_folder(tmp_path / "moved", project="demo"))
    assert (summary.points, summary.unchanged) == (0, COMMITS)
    assert state_of(sqlite_store) == before


def test_a_gigantic_file_is_refused_in_a_sentence_and_never_in_memory(tmp_path: Path) -> None:
    path = tmp_path / f"{hash_of(1)[:8]}-env.json"
    with path.open("wb") as file:
        file.truncate(300_000_000)
    read = read_file(FileToRead(path=path, name=path.name, machine="box", known_digest=None))
    assert read.result is None
    assert read.broken == f"{path.name} has 300 MB; the limit of one file is 268 MB"


def _values(store: Store) -> list[float | None]:
    (series,) = queries.find_series(store, "demo", search="Bench").series
    history = stored_history(store, series.key)
    assert history is not None
    return [point.value for point in history.points]

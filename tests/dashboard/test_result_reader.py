"""Files that are hostile, gigantic or in a hurry: what cannot be read is reported, and the rest is imported."""

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.stored import stored_history
from warpwatch.dashboard.importers import import_asv
from warpwatch.dashboard.importers.asv_folder import open_folder
from warpwatch.dashboard.importers.import_asv import FileRead, FileToRead, import_results, read_file, stamp_of
from warpwatch.dashboard.store import Store, queries

BENCH = "suite.Bench.track_latency"


def _write(asv: Any, text: bytes) -> Path:
    path: Path = asv.folder / "box" / "ffffffff-env.json"
    path.write_bytes(text)
    return path


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"[" * 200_000, "nested too deep"),
        (b'{"commit_hash": "' + b"a" * 100 + b'", "results": {}, "date": 1}', "7 to 64 hexadecimal"),
        (b'{"commit_hash": "abababab", "results": {}, "date": 1e300}', "milliseconds since 1970"),
        (b'{"commit_hash": "a\\u0000b", "results": {}, "date": 1}', "7 to 64 hexadecimal"),
        (b'{"commit_hash": "\\ud800", "results": {}, "date": 1}', "7 to 64 hexadecimal"),
        (b"", "not JSON"),
        (b"\xff\xfe\x00", "not JSON"),
    ],
)
def test_a_hostile_file_is_set_aside_and_the_rest_goes_in(store: Store, asv: Any, text: bytes, said: str) -> None:
    asv.commit(1, {BENCH: asv.row([1.0])})
    path = _write(asv, text)
    summary = import_results(store, open_folder(asv.folder, project="demo"))
    assert summary.points == 1
    assert [str(path) in line and said in line for line in summary.set_aside] == [True]


@pytest.mark.parametrize(
    "row",
    [
        [[1.0], [[str(n) for n in range(3000)]] * 4],  # 81 million million combinations
        [None, [[str(n) for n in range(3000)]] * 4],
        [[1.0], [["a\x00b"]]],
        [[1.0], [["\ud800"]]],
        [[1.0], {"a": 1}],
        [[[1.0, 2.0]], []],  # a list where a number is expected: kept as invalid
        [[1.0], [], "1", 1e300, "NaN", [1], [2], ["x"], [{}], [1e300], [10**40], [["x", None, 1.5]]],
    ],
)
def test_a_hostile_entry_costs_no_more_than_itself(store: Store, asv: Any, row: list[Any]) -> None:
    asv.commit(1, {BENCH: asv.row([1.0]), "suite.Odd.track_latency": row})
    summary = import_results(store, open_folder(asv.folder, project="demo"))
    assert summary.set_aside == ()
    found = queries.find_series(store, "demo", search="Bench").series
    history = stored_history(store, found[0].key)
    assert history is not None
    assert [point.value for point in history.points] == [1.0]


def test_a_gigantic_file_is_set_aside_unread(store: Store, asv: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_asv, "RESULT_FILE_BYTES", 10_000)
    asv.commit(1, {BENCH: asv.row([1.0])})
    _write(asv, b"{" + b" " * 20_000)
    summary = import_results(store, open_folder(asv.folder, project="demo"))
    assert summary.points == 1
    assert "the limit of one file" in summary.set_aside[0]


def test_unchanged_files_are_not_opened_again(
    sqlite_store: Store, timed_history: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    results = timed_history([1.0, 2.0, 3.0])
    monkeypatch.setattr(import_asv, "_FRESH_NS", 0)
    folder = open_folder(results.folder, project="demo")
    import_results(sqlite_store, folder)
    touched = sorted((results.folder / "box").glob("0*.json"))[1]
    touched.write_text(touched.read_text())
    opened = []
    original = import_asv.read_regular
    monkeypatch.setattr(import_asv, "read_regular", lambda path, most: opened.append(path) or original(path, most))
    assert import_results(sqlite_store, folder).unchanged == 3
    assert opened == [touched]
    assert import_results(sqlite_store, folder).unchanged == 3
    assert opened == [touched]


def test_a_file_written_this_moment_is_read_again_next_time(
    timed_history: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be written once more within the clock's tick, to the same size."""
    path = next((timed_history([1.0]).folder / "box").glob("0*.json"))
    written = path.stat().st_mtime_ns
    for passed_s, is_stamped in ((0.0, False), (1.0, False), (3.0, True)):
        monkeypatch.setattr(time, "time_ns", lambda passed_s=passed_s: written + int(passed_s * 1e9))
        assert (stamp_of(path) is not None) == is_stamped


def test_a_change_that_keeps_size_and_date_is_seen(
    sqlite_store: Store, timed_history: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(import_asv, "_FRESH_NS", 0)
    results = timed_history([1.0])
    path = next((results.folder / "box").glob("0*.json"))
    import_results(sqlite_store, open_folder(results.folder, project="demo"))
    seen = path.stat()
    data = json.loads(path.read_text())
    data["results"][BENCH][0], data["results"][BENCH][3] = [9.0], 2
    path.write_text(json.dumps(data))
    os.utime(path, ns=(seen.st_atime_ns, seen.st_mtime_ns))
    assert path.stat().st_size == seen.st_size
    assert import_results(sqlite_store, open_folder(results.folder, project="demo")).points == 1


def test_reading_in_processes_gives_what_reading_here_gives(
    tmp_path: Path, asv: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    params = [[str(n) for n in range(30)]]
    for number in range(30):
        values: list[Any] = [1.0 + n + number / 100 for n in range(28)] + [None, float("nan")]
        asv.commit(number, {BENCH: asv.row(values, params, started_at=number + 1, samples=[[v, v] for v in values])})
    monkeypatch.setattr("warpwatch.dashboard.importers.import_asv._WORTH_PROCESSES", 1)
    seen = []
    for workers in (1, 2):
        store = Store(str(tmp_path / f"{workers}.db"))
        import_results(store, open_folder(asv.folder, project="demo"), workers=workers)
        keys = [series.key for series in queries.find_series(store, "demo").series]
        histories = [stored_history(store, key) for key in sorted(keys)]
        seen.append([history.points for history in histories if history is not None])
        store.close()
    assert len(seen[0]) == 30
    assert seen[0] == seen[1]


def _read_or_die(file: FileToRead) -> FileRead:
    if file.name.endswith("00000003-env-py3.11.json"):
        os.kill(os.getpid(), signal.SIGKILL)
    return read_file(file)


def test_a_file_that_kills_its_reader_is_set_aside_and_the_rest_goes_in(
    sqlite_store: Store, timed_history: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    results = timed_history([1.0] * 8)
    monkeypatch.setattr("warpwatch.dashboard.importers.import_asv._WORTH_PROCESSES", 1)
    monkeypatch.setattr("warpwatch.dashboard.importers.import_asv.read_file", _read_or_die)
    summary = import_results(sqlite_store, open_folder(results.folder, project="demo"), workers=2)
    assert summary.points == 7
    assert len(summary.set_aside) == 1
    assert "00000003-env-py3.11.json: the process that read it was killed" in summary.set_aside[0]

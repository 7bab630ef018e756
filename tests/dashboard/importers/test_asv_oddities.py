"""What other projects' asv results are like: names, lists and rows as no documentation shows them."""

import json
import os
import re
from pathlib import Path
from typing import Any

from tests.asv_results import AsvResults, hash_of
from tests.stored import stored_history
from warpwatch.dashboard.importers.import_path import import_path
from warpwatch.dashboard.model.series import Status
from warpwatch.dashboard.store import Store, queries

BENCH = "suite.Bench.track_latency"


def _shown(store: Store, search: str = "") -> dict[tuple[str, ...], list[tuple[Status, float | None]]]:
    """Every point by its series' parameters, in the order of commits."""
    found = {}
    for series in queries.find_series(store, "demo", search=search).series:
        history = stored_history(store, series.key)
        assert history is not None
        key = tuple(value for _, value in series.parameters)
        found[key] = [(point.status, point.value) for point in history.points]
    return found


def test_folders_are_called_anything_and_machines_otherwise(sqlite_store: Store, asv: AsvResults) -> None:
    folders = ("GPU (RTX 3060) #2", "100% – Jürgens Kiste", "a  b", "it's; rm -rf")
    for number, folder in enumerate(folders):
        asv.commit(number, {BENCH: asv.row([1.0])}, folder=folder, machine=f"machine ({number})")
    summary = asv.load(sqlite_store)
    assert (summary.points, summary.set_aside) == (4, ())
    assert {machine.name for machine in queries.machines(sqlite_store, "demo")} == {f"machine ({n})" for n in range(4)}


def test_a_folder_that_names_no_machine_is_the_machine(sqlite_store: Store, asv: AsvResults) -> None:
    path = asv.commit(1, {BENCH: asv.row([1.0])}, folder="old (box)")
    (path.parent / "machine.json").unlink()
    path.write_text(path.read_text().replace('"machine": "box", ', ""))
    assert import_path(sqlite_store, asv.folder, project="demo").points == 1  # no benchmarks.json either
    assert [machine.name for machine in queries.machines(sqlite_store, "demo")] == ["old (box)"]


def test_a_benchmark_that_gains_and_loses_parameters_keeps_each_history(store: Store, asv: AsvResults) -> None:
    asv.commit(1, {BENCH: asv.row([1.0], started_at=1)})
    asv.commit(2, {BENCH: asv.row([2.0, 3.0], [["1", "2"]], started_at=2)})
    asv.benchmark(BENCH, size=["2", "4"], dtype=["'f4'", "'f8'"])
    asv.commit(3, {BENCH: asv.row([4.0, 5.0, 6.0, 7.0], [["2", "4"], ["'f4'", "'f8'"]], started_at=3)})
    asv.commit(4, {BENCH: asv.row([8.0], started_at=4)})
    assert asv.load(store).points == 8
    ok = Status.OK
    assert _shown(store) == {
        (): [(ok, 1.0), (ok, 8.0)],
        ("1",): [(ok, 2.0)],
        ("2",): [(ok, 3.0)],
        ("2", "f4"): [(ok, 4.0)],
        ("2", "f8"): [(ok, 5.0)],
        ("4", "f4"): [(ok, 6.0)],
        ("4", "f8"): [(ok, 7.0)],
    }
    names = {series.parameters for series in queries.find_series(store, "demo").series if len(series.parameters) == 2}
    assert {name for parameters in names for name, _ in parameters} == {"size", "dtype"}


def test_nothing_finite_everything_failed_and_rows_of_every_length_are_in_one_file(
    store: Store, asv: AsvResults
) -> None:
    nan, inf = float("nan"), float("inf")
    results, samples = [1.0, None, nan, inf, -inf], [[1.0], None, [], [inf], None]
    full = asv.row(results, [["1", "2", "3", "4", "5"]], spread=0.1, samples=samples)
    rows: dict[str, Any] = {
        "whole.time_it": full,
        "short.time_it": [[1.0]],
        "failed.time_it": [None, [["1", "2"]], "1", 5, 0.1],
        "nan.time_it": [[nan], []],
        "empty.time_it": [[], [[]]],
        "null.time_it": None,
        "list.time_it": [],
        "misfit.time_it": [[1.0, 2.0], [["1"]]],
    }
    path = asv.commit(1, rows)
    assert b"NaN" in path.read_bytes()
    assert b"-Infinity" in path.read_bytes()
    summary = asv.load(store)
    assert summary.set_aside == ()
    (line,) = (line for line in summary.warnings if "misfit" in line)
    assert "2 values for 1 parameter combinations" in line
    failed, invalid, absent = (Status.FAILED, None), (Status.INVALID, None), (Status.UNAVAILABLE, None)
    assert _shown(store, "whole") == {
        ("1",): [(Status.OK, 1.0)],
        ("2",): [failed],
        ("3",): [absent],
        ("4",): [invalid],
        ("5",): [invalid],
    }
    assert _shown(store, "short") == {(): [(Status.OK, 1.0)]}
    assert _shown(store, "failed") == {("1",): [failed], ("2",): [failed]}
    assert _shown(store, "nan.time") == {(): [absent]}


HOSTILE = {
    "nested": (b'{"results": ' + b"[" * 200_000, "nested too deep|not JSON"),
    "truncated": (b'{"commit_hash": "' + b"a" * 40 + b'", "date": 1, "results": {"a": [[1.', "not JSON"),
    "empty": (b"", "not JSON"),
    "binary": (bytes(range(256)), "not JSON"),
    "long hash": (json.dumps({"commit_hash": "a" * 500, "date": 1, "results": {}}).encode(), "commit_hash|hash"),
    "no date": (json.dumps({"commit_hash": "a" * 40, "date": 1e30, "results": {}}).encode(), "date"),
    "null name": (json.dumps({"commit_hash": "a" * 40, "date": 1, "env_name": "a\0b", "results": {}}).encode(), "name"),
}


def test_hostile_files_are_set_aside_and_the_rest_goes_in(store: Store, asv: AsvResults) -> None:
    asv.commit(1, {BENCH: asv.row([1.0])})
    for name, (content, _) in HOSTILE.items():
        (asv.folder / "box" / f"{name}-env.json").write_bytes(content)
    (asv.folder / "box" / "folder-env.json").mkdir()
    os.mkfifo(asv.folder / "box" / "pipe-env.json")
    (asv.folder / "box" / "loop-env.json").symlink_to("loop-env.json")
    summary = asv.load(store)
    assert summary.points == 1
    messages = {Path(line.partition("-env.json: ")[0]).name: line for line in summary.set_aside}
    assert set(messages) == set(HOSTILE)
    for name, (_, said) in HOSTILE.items():
        assert re.search(said, messages[name].partition("-env.json: ")[2]), messages[name]


def test_more_combinations_than_anybody_ran_cost_themselves_alone(sqlite_store: Store, asv: AsvResults) -> None:
    """The file is small; the product of its lists has 10^15 combinations."""
    many = [[str(n) for n in range(1000)]] * 5
    asv.commit(1, {BENCH: asv.row([1.0]), "huge.time_it": [None, many]})
    summary = asv.load(sqlite_store)
    assert summary.points == 1
    assert any("huge.time_it" in line for line in summary.warnings)
    assert [commit.hash for commit in queries.commits(sqlite_store, "demo")] == [hash_of(1)]

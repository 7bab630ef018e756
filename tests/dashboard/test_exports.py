"""Exports and data frames hold what was recorded, on both databases; the command as it is run."""

import csv
import io
import json
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from tests.asv_results import HOUR_MS, START_MS, AsvResults, hash_of
from tests.commands import run_command
from tests.dashboard.suite_results import Suite
from tests.stored import stored_history
from warpwatch import dashboard
from warpwatch.dashboard.cli.arrow import write_parquet
from warpwatch.dashboard.cli.export import export
from warpwatch.dashboard.cli.measurement_rows import COLUMNS, write_csv, write_json
from warpwatch.dashboard.store import Store, queries

BENCH = "suite.Bench.track_latency"
SIZES = ["10", "'a, \"b\"'"]


@pytest.fixture
def recorded(store: Store, asv: AsvResults) -> Store:
    """Two parameters over four commits, one of them measured twice; a failure, a NaN, a rate, a second machine."""
    asv.benchmark(BENCH, size=SIZES)
    asv.benchmark("suite.Bench.track_bandwidth", unit="GB/s")
    for number in range(4):
        latencies = [1.5 + number, None if number == 2 else float("nan") if number == 3 else 2.5]
        rows = {
            BENCH: asv.row(latencies, [SIZES], started_at=START_MS + number, spread=0.01),
            "suite.Bench.track_bandwidth": asv.row([100.0], started_at=START_MS + number),
        }
        asv.commit(number, rows)
    asv.commit(0, {BENCH: asv.row([7.0, 8.0], [SIZES], started_at=1)}, machine="other")
    asv.load(store)
    asv.commit(1, {BENCH: asv.row([2.75, 2.5], [SIZES], started_at=START_MS + 10)})
    asv.load(store)
    return store


def _csv(store: Store, **only: Any) -> list[dict[str, str]]:
    out = io.StringIO()
    count = write_csv(queries.measurements(store, "demo", **only), out)
    rows = list(csv.DictReader(io.StringIO(out.getvalue())))
    assert len(rows) == count
    return rows


def test_every_measurement_is_a_row_in_the_order_of_commits_and_runs(recorded: Store) -> None:
    rows = [row for row in _csv(recorded, machine="box") if json.loads(row["parameters"]) == {"size": "10"}]
    assert [(row["position"], row["value"]) for row in rows] == [
        ("0", "1.5"),
        ("1", "2.5"),
        ("1", "2.75"),
        ("2", "3.5"),
        ("3", "4.5"),
    ]
    first = rows[0]
    assert tuple(first) == COLUMNS
    assert (first["project"], first["benchmark"], first["metric"], first["unit"], first["better"]) == (
        "demo",
        BENCH,
        "latency",
        "seconds",
        "lower",
    )
    assert (first["machine"], first["environment"], first["commit"]) == ("box", "env-py3.11", hash_of(0))
    assert datetime.fromisoformat(first["date"]) == datetime.fromtimestamp(START_MS / 1000, UTC)
    assert datetime.fromisoformat(rows[2]["run_time"]) == datetime.fromtimestamp((START_MS + 10) / 1000, UTC)
    assert (float(first["q25"]), float(first["q75"]), first["sample_count"]) == (1.5 * 0.99, 1.5 * 1.01, "10")
    assert len({row["run"] for row in rows}) == 5
    history = stored_history(recorded, first["series"])
    assert history is not None
    assert [point.run for point in history.points] == [row["run"] for row in rows]


def test_what_is_no_number_has_its_status_and_reason_and_no_value(recorded: Store) -> None:
    rows = [row for row in _csv(recorded, machine="box") if json.loads(row["parameters"]) == {"size": 'a, "b"'}]
    assert [(row["value"], row["status"], row["reason"]) for row in rows][-2:] == [
        ("", "failed", "the benchmark failed"),
        ("", "unavailable", "not available here"),
    ]


def test_only_the_selected_series_are_written(recorded: Store) -> None:
    assert len(_csv(recorded)) == 2 * 5 + 4 + 2
    assert {row["machine"] for row in _csv(recorded, machine="other")} == {"other"}
    assert {row["unit"] for row in _csv(recorded, metric="bandwidth")} == {"GB/s"}
    assert len(_csv(recorded, benchmark="BANDwidth")) == 4
    assert _csv(recorded, benchmark="%") == []
    since = datetime.fromtimestamp((START_MS + 3 * HOUR_MS) / 1000, UTC)
    assert {row["commit"] for row in _csv(recorded, since=since)} == {hash_of(3)}
    assert list(queries.measurements(recorded, "nobody's")) == []


def test_json_parquet_and_the_data_frame_agree_with_the_csv(recorded: Store, tmp_path: Path) -> None:
    rows = _csv(recorded)
    out = io.StringIO()
    assert write_json(queries.measurements(recorded, "demo"), out) == len(rows)
    as_json = json.loads(out.getvalue(), parse_constant=pytest.fail)["rows"]
    for row, same in zip(rows, as_json, strict=True):
        texts = same | {"parameters": json.dumps(same["parameters"], ensure_ascii=False)}
        assert {name: "" if cell is None else str(cell) for name, cell in texts.items()} == row
    with (tmp_path / "all.parquet").open("wb") as file:
        assert write_parquet(queries.measurements(recorded, "demo"), file) == len(rows)
    table = pq.read_table(tmp_path / "all.parquet")
    assert table.column_names == list(COLUMNS)
    for row, same in zip(as_json, table.to_pylist(), strict=True):
        texts = same | {name: same[name] and same[name].isoformat() for name in ("date", "run_time")}
        assert texts | {"parameters": json.loads(same["parameters"])} == row
    url = recorded.url.render_as_string(hide_password=False)
    pd.testing.assert_frame_equal(
        dashboard.history("demo", database=url),
        table.to_pandas().astype({"sample_count": "Int32"}),
    )


def test_a_data_frame_has_types_to_work_with(recorded: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPWATCH_DATABASE", recorded.url.render_as_string(hide_password=False))
    frame = dashboard.history(metric="latency", machine="box", since="2025-06-15T17:00:00+02:00")
    assert frame["value"].dtype == "float64"
    assert str(frame["date"].dtype) == "datetime64[ms, UTC]"
    assert str(frame["sample_count"].dtype) == "Int32"
    assert all(isinstance(frame[name].dtype, pd.CategoricalDtype) for name in ("benchmark", "commit", "status"))
    assert list(frame.index) == list(range(len(frame)))
    assert frame.loc[frame["status"] != "ok", "value"].isna().all()
    levels = frame[frame["status"] == "ok"].groupby(["parameters", "position"], observed=True)["value"].median()
    assert levels.loc['{"size": "10"}', 1] == 2.625  # the median of the two runs
    none = dashboard.history(benchmark="no such")
    assert (len(none), tuple(none.columns)) == (0, COLUMNS)
    with pytest.raises(LookupError, match=r"no project 'demo2'; projects in .*: demo"):
        dashboard.history("demo2")


def test_gpus_workloads_and_implementations_have_columns(sqlite_store: Store, asv: AsvResults) -> None:
    Suite(asv).commit(1, card="GPU-one")
    asv.load(sqlite_store)
    rows = _csv(sqlite_store, benchmark="rope")
    assert {(row["gpu"], row["workload"], row["implementation"]) for row in rows} == {
        ("GPU-one", "w1", "warpwatch"),
        ("GPU-one", "w1", "eager"),
    }


def test_a_history_longer_than_a_table_of_arrow_is_whole(
    sqlite_store: Store, timed_history: Callable[..., AsvResults], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("warpwatch.dashboard.cli.arrow._ROWS_AT_ONCE", 3)
    timed_history([1.0, 2.0], name="suite.A.track_latency")
    timed_history([3.0, 4.0, 5.0], name="suite.B.track_latency", first=2)
    timed_history([6.0], name="suite.C.track_latency", first=5).load(sqlite_store)
    with (tmp_path / "all.parquet").open("wb") as file:
        write_parquet(queries.measurements(sqlite_store, "demo"), file)
    assert pq.ParquetFile(tmp_path / "all.parquet").num_row_groups == 2
    assert pq.read_table(tmp_path / "all.parquet")["value"].to_pylist() == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    frame = dashboard.history(database=sqlite_store.url.render_as_string())
    assert list(frame["benchmark"].unique()) == [f"suite.{name}.track_latency" for name in "ABC"]


def _export(
    database: Path, *arguments: str | Path, code: str = "", stdout: Any = subprocess.PIPE
) -> "subprocess.CompletedProcess[str]":
    """In a process of its own, which has that standard output, after that code."""
    code = f"{code}\nfrom warpwatch.dashboard.cli.export import export; export()"
    command = [sys.executable, "-c", code, "--database", str(database), *map(str, arguments)]
    return subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, text=True, timeout=60, check=False)


def _export_here(database: Path, *arguments: str | Path) -> "subprocess.CompletedProcess[str]":
    return run_command("export", "--database", database, *arguments, folder=database.parent)


@pytest.fixture
def small_history(tmp_path: Path, sqlite_store: Store, timed_history: Callable[..., AsvResults]) -> Path:
    """A SQLite file with a small history."""
    timed_history([1.0, 2.0]).load(sqlite_store)
    return tmp_path / "history.db"


def test_the_command_writes_to_stdout_or_to_a_file_that_is_whole(small_history: Path, tmp_path: Path) -> None:
    printed = _export(small_history, "--since", "2025-06-15")
    assert (printed.returncode, printed.stderr) == (0, "")
    done = _export_here(small_history, "--output", tmp_path / "all.csv")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", f"2 measurements of demo in {tmp_path / 'all.csv'}\n")
    assert (tmp_path / "all.csv").read_text() == printed.stdout
    nowhere = _export_here(small_history, "--output", tmp_path / "absent" / "all.csv")
    assert nowhere.returncode == 2
    assert "does not exist; create it or name another file" in nowhere.stderr
    assert [path.name for path in tmp_path.glob("*.part")] == []


@pytest.mark.parametrize("layout", ["csv", "json", "parquet"])
def test_a_full_disk_is_an_error_in_words(small_history: Path, layout: str) -> None:
    with Path("/dev/full").open("w") as full:
        done = _export(small_history, "--format", layout, stdout=full)
    assert (done.returncode, done.stderr) == (70, "Error: cannot write to stdout: No space left on device\n")


def test_parquet_without_its_library_says_what_to_install(small_history: Path, tmp_path: Path) -> None:
    without = "import sys; sys.modules['pyarrow'] = None"
    done = _export(small_history, "--format", "parquet", "--output", tmp_path / "all.parquet", code=without)
    assert done.returncode == 1
    assert "pip install 'warpwatch[export]'" in done.stderr
    assert not (tmp_path / "all.parquet").exists()
    assert _export(small_history, code=without).returncode == 0  # CSV and JSON want nothing


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--site", "site", "--format", "json"], "--format has no effect with --site"),
        (["--images"], "--images has no effect without --site"),
        (["--project", "a", "--project", "b"], "only --site takes several"),
    ],
)
def test_an_option_without_effect_is_refused(options: list[str], said: str) -> None:
    done = CliRunner().invoke(export, options)
    assert done.exit_code == 2
    assert said in done.stderr

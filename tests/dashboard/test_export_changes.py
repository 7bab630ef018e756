"""Exported changes: every kind, with the facts that the pages show."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from click.testing import CliRunner

from tests.dashboard.suite_results import Suite
from warpwatch.dashboard.cli.export import export
from warpwatch.dashboard.cli.measurement_rows import CHANGE_COLUMNS
from warpwatch.dashboard.store import Store


def _exported(store: Store, *options: str) -> str:
    url = store.engine.url.render_as_string(hide_password=False)
    done = CliRunner().invoke(export, ["--changes", "--database", url, *options])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_csv_json_and_parquet_agree_on_every_kind(store: Store, asv: Any, tmp_path: Path) -> None:
    history = Suite(asv)
    for number in range(60):
        moved = dict.fromkeys(history.levels, 1.06 if number >= 40 else 1.0)
        spike = 1.5 if number in {10, 11} else 1.0
        history.commit(number, {**moved, "warpwatch": moved["warpwatch"] * spike * (1.1 if number >= 25 else 1.0)})
    asv.load(store)
    only = ("--benchmark", "rope", "--metric", "latency")
    rows = [row for row in csv.DictReader(io.StringIO(_exported(store, *only))) if row["implementation"] == "warpwatch"]
    assert tuple(rows[0]) == CHANGE_COLUMNS
    assert [row["kind"] for row in rows] == ["transient", "step", "machine state"]
    assert [row["control"] for row in rows] == ["", "canaries", "canaries"]
    assert float(rows[1]["q_value"]) < 0.001
    assert rows[2]["q_value"] == ""
    assert float(rows[2]["control_share_low"]) < 1 < float(rows[2]["control_share_high"])
    as_json = json.loads(_exported(store, "--format", "json", *only))["rows"]
    path = tmp_path / "changes.parquet"
    _exported(store, "--format", "parquet", "--output", str(path), *only)
    table = pq.read_table(path).to_pylist()
    assert [row["magnitude"] for row in table] == [row["magnitude"] for row in as_json]
    assert [row["kind"] for row in table] == [row["kind"] for row in as_json]
    assert json.loads(table[0]["parameters"]) == as_json[0]["parameters"]


def test_a_history_that_nothing_happened_to_is_a_header(sqlite_store: Store, asv: Any) -> None:
    Suite(asv).commit(0)
    asv.load(sqlite_store)
    assert _exported(sqlite_store) == ",".join(CHANGE_COLUMNS) + "\n"

"""No CSV of ours has a cell that a spreadsheet would run."""

import csv
import io
import json

import pytest
from click.testing import CliRunner

from tests.asv_results import AsvResults
from warpwatch.dashboard.cli.export import export
from warpwatch.dashboard.store import Store
from warpwatch.dashboard.text.tables import csv_text

FORMULA = '=HYPERLINK("http://evil.example")'


@pytest.mark.parametrize(
    ("cell", "written"),
    [
        ("=1+1", "'=1+1"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("-2+3", "'-2+3"),
        ("\t=1", "'\t=1"),
        ("a=1", "a=1"),
        ("", ""),
        (-1.5, -1.5),
        (None, None),
    ],
)
def test_a_text_that_begins_like_a_formula_is_a_text(cell: object, written: object) -> None:
    assert csv_text(cell) == written


def test_names_that_are_formulas_are_texts_in_every_csv_and_as_they_are_in_json(
    sqlite_store: Store, asv: AsvResults
) -> None:
    asv.benchmark(FORMULA, unit="seconds")
    for number in range(30):
        asv.commit(number, {FORMULA: asv.row([1e-3 if number < 15 else 2e-3], started_at=number + 1)}, machine="@box")
    asv.load(sqlite_store, project="+p")
    url = sqlite_store.engine.url.render_as_string()
    for options in ([], ["--changes"]):
        done = CliRunner().invoke(export, [*options, "--database", url])
        assert done.exit_code == 0, done.output
        rows = list(csv.DictReader(io.StringIO(done.stdout)))
        assert {row["benchmark"] for row in rows} == {f"'{FORMULA}"}
        assert {row["machine"] for row in rows} <= {"'@box", ""}
    output = CliRunner().invoke(export, ["--format", "json", "--database", url]).stdout
    assert {row["benchmark"] for row in json.loads(output)["rows"]} == {FORMULA}

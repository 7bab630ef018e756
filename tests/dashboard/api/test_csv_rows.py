"""What stands in a CSV cell: numbers as they are, and no text that a spreadsheet would run."""

import csv
import io

import pytest

from warpwatch.dashboard.model.schema import Schema
from warpwatch.dashboard.web.api.operation import as_csv


class Row(Schema):
    """A row with a text and a number."""

    subject: str
    change: float


class Rows(Schema):
    """The list."""

    items: list[Row]


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"])
def test_what_begins_like_a_formula_is_text(text: str) -> None:
    (row,) = csv.DictReader(io.StringIO(as_csv(Rows(items=[Row(subject=text, change=-0.5)])), newline=""))
    assert row == {"subject": f"'{text}", "change": "-0.5"}


@pytest.mark.parametrize("text", ["rope: a = b", "", "'quoted'", "a,b\n=c"])
def test_other_texts_are_as_they_were(text: str) -> None:
    (row,) = csv.DictReader(io.StringIO(as_csv(Rows(items=[Row(subject=text, change=0.5)])), newline=""))
    assert row["subject"] == text

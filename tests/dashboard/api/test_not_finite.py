"""What is no finite number is null in JSON and empty in CSV."""

import json
import math
from typing import ClassVar

import pytest

from warpwatch.dashboard.model.schema import Schema
from warpwatch.dashboard.web.api.operation import as_csv


class _Part(Schema):
    value: float | None


class _Row(Schema):
    value: float | None
    parts: list[_Part]


class _Answer(Schema):
    csv_rows: ClassVar[str] = "rows"
    rows: list[_Row]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_it_is_null_in_json_and_empty_in_csv(value: float) -> None:
    part = _Part.model_construct(value=value)
    answer = _Answer.model_construct(rows=[_Row.model_construct(value=value, parts=[part])])
    assert json.loads(answer.model_dump_json()) == {"rows": [{"value": None, "parts": [{"value": None}]}]}
    assert as_csv(answer).splitlines()[1] == ',"[{""value"": null}]"'

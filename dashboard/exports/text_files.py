"""Measurements as CSV and as JSON, written row by row."""

import csv
import io
import json
from collections.abc import Iterable, Sequence
from typing import Any, TextIO

import orjson

from warpwatch.dashboard.csv_text import csv_text
from warpwatch.dashboard.exports.rows import COLUMNS, SERIES_COLUMNS, point_cells, series_cells
from warpwatch.dashboard.store.measured import Measured

_PARAMETERS = COLUMNS.index("parameters")
_OWN_COLUMNS = COLUMNS[len(SERIES_COLUMNS) :]


def write_csv(measurements: Iterable[Measured], out: TextIO) -> int:
    """As RFC 4180 with a header, parameters as a JSON object, dates ISO 8601, nothing for null. Returns the rows."""
    csv.writer(out, lineterminator="\n").writerow(COLUMNS)
    count = 0
    for measured in measurements:
        shared = list(series_cells(measured.series))
        shared[_PARAMETERS] = json.dumps(shared[_PARAMETERS], ensure_ascii=False)
        rows = (map(csv_text, row) for row in point_cells(measured))
        csv.writer(_After(out, list(map(csv_text, shared))), lineterminator="\n").writerows(rows)
        count += len(measured)
    return count


class _After:
    """A file in which each row written comes after the same cells, which are put into CSV once."""

    def __init__(self, out: TextIO, cells: Sequence[Any]) -> None:
        beginning = io.StringIO()
        csv.writer(beginning, lineterminator=",").writerow(cells)
        self._out, self._beginning = out, beginning.getvalue()

    def write(self, row: str) -> int:
        return self._out.write(self._beginning + row)


def write_json(measurements: Iterable[Measured], out: TextIO) -> int:
    """As one object, {"schema": 1, "rows": [...]}, a row a line and dates ISO 8601. Returns the rows."""
    out.write('{"schema": 1, "rows": [')
    count = 0
    for measured in measurements:
        shared = dict(zip(SERIES_COLUMNS, series_cells(measured.series), strict=True))
        opening = orjson.dumps(shared).decode().removesuffix("}")  # told once for all its rows
        for cells in point_cells(measured):
            own = orjson.dumps(dict(zip(_OWN_COLUMNS, cells, strict=True))).decode()
            out.write(f"{',' if count else ''}\n{opening},{own[1:]}")
            count += 1
    out.write("\n]}\n")
    return count

"""Measurements as CSV and as JSON, written row by row."""

import csv
import json
from collections.abc import Iterable
from datetime import datetime
from typing import Any, TextIO

from warpwatch.dashboard.exports.rows import COLUMNS, point_cells, series_cells
from warpwatch.dashboard.store.records import Measured

_PARAMETERS = COLUMNS.index("parameters")


def write_csv(measurements: Iterable[Measured], out: TextIO) -> int:
    """As RFC 4180 with a header, parameters as a JSON object, dates ISO 8601, nothing for null. Returns the rows."""
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    count = 0
    for measured in measurements:
        shared = list(series_cells(measured))
        shared[_PARAMETERS] = json.dumps(shared[_PARAMETERS], ensure_ascii=False)
        writer.writerows((*shared, *map(_text, cells)) for cells in point_cells(measured))
        count += len(measured.points)
    return count


def write_json(measurements: Iterable[Measured], out: TextIO) -> int:
    """As one object, {"schema": 1, "rows": [...]}, a row a line and dates ISO 8601. Returns the rows."""
    out.write('{"schema": 1, "rows": [')
    count = 0
    for measured in measurements:
        shared = series_cells(measured)
        for cells in point_cells(measured):
            row = dict(zip(COLUMNS, (*shared, *map(_text, cells)), strict=True))
            out.write("\n" if count == 0 else ",\n")
            out.write(json.dumps(row, ensure_ascii=False, allow_nan=False))
            count += 1
    out.write("\n]}\n")
    return count


def _text(cell: Any) -> Any:
    return cell.isoformat() if isinstance(cell, datetime) else cell

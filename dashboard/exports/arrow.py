"""Measurements as Apache Arrow's columns: what Parquet files and data frames are made of. Wants pyarrow."""

import json
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from warpwatch.dashboard.exports.rows import COLUMNS, point_cells, series_cells
from warpwatch.dashboard.store.records import Measured

_WORD = pa.dictionary(pa.int32(), pa.string())  # text of which there are few kinds
_MOMENT = pa.timestamp("ms", tz="UTC")
_NUMBER = pa.float64()
_TYPES = {
    "date": _MOMENT, "run_time": _MOMENT, "position": pa.int64(), "sample_count": pa.int32(),
    "value": _NUMBER, "q25": _NUMBER, "q75": _NUMBER,
}  # fmt: skip
SCHEMA = pa.schema([(name, _TYPES.get(name, _WORD)) for name in COLUMNS])
_ROWS_AT_ONCE = 100_000


def arrow_tables(measurements: Iterable[Measured]) -> Iterator[pa.Table]:
    """The measurements as tables of about 100,000 rows; none if there are no measurements."""
    waiting: list[Measured] = []
    rows = 0
    for measured in measurements:
        waiting.append(measured)
        rows += len(measured.points)
        if rows >= _ROWS_AT_ONCE:
            yield _table(waiting)
            waiting, rows = [], 0
    if waiting:
        yield _table(waiting)


def _table(found: list[Measured]) -> pa.Table:
    """Texts are told once a series, and repeated as numbers."""
    row_of = pa.array(np.repeat(np.arange(len(found)), [len(measured.points) for measured in found]))
    shared = zip(*map(series_cells, found), strict=True)
    arrays = [pa.array(map(_text, cells), pa.string()).dictionary_encode().take(row_of) for cells in shared]
    own = zip(*(cells for measured in found for cells in point_cells(measured)), strict=True)
    arrays += [_array(cells, SCHEMA.field(name).type) for name, cells in zip(COLUMNS[len(arrays) :], own, strict=True)]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def _array(cells: tuple[object, ...], kind: pa.DataType) -> pa.Array:
    return pa.array(cells, pa.string()).dictionary_encode() if kind == _WORD else pa.array(cells, kind)


def _text(cell: object) -> str | None:
    return json.dumps(cell, ensure_ascii=False) if isinstance(cell, dict) else None if cell is None else str(cell)

"""Measurements as Arrow tables and as a Parquet file. Requires pyarrow."""

import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ..store.chunks import Floats, Ints
from ..store.column_records import Measured, TextColumn
from .measurement_rows import COLUMNS, series_cells

_WORD = pa.dictionary(pa.int32(), pa.string())  # text with few distinct values
_MOMENT = pa.timestamp("ms", tz="UTC")
_TYPES = {
    "date": _MOMENT,
    "run_time": _MOMENT,
    "position": pa.int64(),
    "sample_count": pa.int32(),
    "value": pa.float64(),
    "q25": pa.float64(),
    "q75": pa.float64(),
    "adjusted_value": pa.float64(),
    "gpu_spread": pa.float64(),
}
SCHEMA = pa.schema([(name, _TYPES.get(name, _WORD)) for name in COLUMNS])
_ROWS_AT_ONCE = 100_000


def arrow_tables(measurements: Iterable[Measured]) -> Iterator[pa.Table]:
    """Tables of about 100,000 rows; none without measurements."""
    waiting: list[Measured] = []
    rows = 0
    for measured in measurements:
        waiting.append(measured)
        rows += len(measured)
        if rows >= _ROWS_AT_ONCE:
            yield _table(waiting)
            waiting, rows = [], 0
    if waiting:
        yield _table(waiting)


def _table(measurements: Sequence[Measured]) -> pa.Table:
    """One table; texts of a series are dictionary-encoded."""
    row_of = pa.array(np.repeat(np.arange(len(measurements)), [len(measured) for measured in measurements]))
    shared = zip(*(series_cells(measured.series) for measured in measurements), strict=True)
    arrays = [pa.array(map(_text, cells), pa.string()).dictionary_encode().take(row_of) for cells in shared]
    arrays += [
        _words([measured.gpu for measured in measurements]),
        _words([measured.commit for measured in measurements]),
        pa.array(np.concatenate([measured.date_ms for measured in measurements])).cast(_MOMENT),
        pa.array(np.concatenate([measured.position for measured in measurements])),
        _words([measured.run for measured in measurements]),
        _known([measured.started_ms for measured in measurements], _MOMENT),
        *(_values([getattr(measured, name) for measured in measurements]) for name in ("value", "q25", "q75")),
        _known([measured.sample_count for measured in measurements], pa.int32()),
        _values([measured.adjusted_value for measured in measurements]),
        _words([measured.status for measured in measurements]),
        _words([measured.reason for measured in measurements]),
        pa.array([measured.gpu_spread for measured in measurements], pa.float64()).take(row_of),
        pa.array([_text(measured.verdict) for measured in measurements], pa.string()).dictionary_encode().take(row_of),
    ]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def _text(cell: object) -> str | None:
    return json.dumps(cell, ensure_ascii=False) if isinstance(cell, dict) else None if cell is None else str(cell)


def _values(columns: Sequence[Floats]) -> pa.Array:
    return pa.array(np.concatenate(columns), pa.float64(), from_pandas=True)  # NaN is null


def _known(columns: Sequence[Ints], kind: pa.DataType) -> pa.Array:
    """Numbers; null below zero."""
    numbers = np.concatenate(columns)
    return pa.array(numbers, pa.int64(), mask=numbers < 0).cast(kind)


def _words(columns: Sequence[TextColumn]) -> pa.Array:
    texts = itertools.chain.from_iterable(column.texts() for column in columns)
    return pa.array(texts, pa.string()).dictionary_encode()


def write_parquet(measurements: Iterable[Measured], out: BinaryIO) -> int:
    """Write Parquet with Zstandard; parameters are JSON text, dates UTC in milliseconds. Returns the number of rows."""
    count = 0
    with pq.ParquetWriter(out, SCHEMA, compression="zstd") as writer:
        for table in arrow_tables(measurements):
            writer.write_table(table)
            count += table.num_rows
    return count

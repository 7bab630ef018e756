"""Measurements as Apache Arrow's columns and as a Parquet file. Needs pyarrow."""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ...store.chunks import Floats, Ints
from ...store.column_records import Measured, TextColumn
from .measurement_rows import COLUMNS, series_cells

_WORD = pa.dictionary(pa.int32(), pa.string())  # text of which there are few kinds
_MOMENT = pa.timestamp("ms", tz="UTC")
_TYPES = {
    "date": _MOMENT,
    "run_time": _MOMENT,
    "position": pa.int64(),
    "sample_count": pa.int32(),
    "value": pa.float64(),
    "q25": pa.float64(),
    "q75": pa.float64(),
}
SCHEMA = pa.schema([(name, _TYPES.get(name, _WORD)) for name in COLUMNS])
_ROWS_AT_ONCE = 100_000


def arrow_tables(measurements: Iterable[Measured]) -> Iterator[pa.Table]:
    """The measurements as tables of about 100,000 rows; none if there are no measurements."""
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


def _table(found: Sequence[Measured]) -> pa.Table:
    """Texts are told once a series, and repeated as numbers."""
    row_of = pa.array(np.repeat(np.arange(len(found)), [len(measured) for measured in found]))
    shared = zip(*(series_cells(measured.series) for measured in found), strict=True)
    arrays = [pa.array(map(_text, cells), pa.string()).dictionary_encode().take(row_of) for cells in shared]
    arrays += [
        _words([each.gpu for each in found]),
        _words([each.commit for each in found]),
        pa.array(np.concatenate([each.date_ms for each in found])).cast(_MOMENT),
        pa.array(np.concatenate([each.position for each in found])),
        _words([each.run for each in found]),
        _known([each.started_ms for each in found], _MOMENT),
        *(_values([getattr(each, name) for each in found]) for name in ("value", "q25", "q75")),
        _known([each.sample_count for each in found], pa.int32()),
        _words([each.status for each in found]),
        _words([each.reason for each in found]),
    ]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def _text(cell: object) -> str | None:
    return json.dumps(cell, ensure_ascii=False) if isinstance(cell, dict) else None if cell is None else str(cell)


def _values(columns: Sequence[Floats]) -> pa.Array:
    return pa.array(np.concatenate(columns), pa.float64(), from_pandas=True)  # NaN is null


def _known(columns: Sequence[Ints], kind: pa.DataType) -> pa.Array:
    """Numbers that are null where they are below zero."""
    numbers = np.concatenate(columns)
    return pa.array(numbers, pa.int64(), mask=numbers < 0).cast(kind)


def _words(columns: Sequence[TextColumn]) -> pa.Array:
    """One dictionary of the words that occur, in the order in which they first do."""
    place: dict[str, int] = {}
    parts = []
    for column in columns:
        used, inverse = np.unique(column.codes, return_inverse=True)
        known = [-1 if n < 0 else place.setdefault(column.words[n], len(place)) for n in used.tolist()]
        parts.append(np.array(known, dtype=np.int32)[inverse])
    places = np.concatenate(parts)
    return pa.DictionaryArray.from_arrays(pa.array(places, mask=places < 0), pa.array(list(place), pa.string()))


# Measurements as one Parquet file, a row group at a time. Wants pyarrow.


def write_parquet(measurements: Iterable[Measured], out: BinaryIO) -> int:
    """Zstandard inside; parameters are JSON text, dates UTC to the millisecond. Returns the rows."""
    count = 0
    with pq.ParquetWriter(out, SCHEMA, compression="zstd") as writer:
        for table in arrow_tables(measurements):
            writer.write_table(table)
            count += table.num_rows
    return count

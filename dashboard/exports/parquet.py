"""Measurements as one Parquet file, a row group at a time. Wants pyarrow."""

from collections.abc import Iterable
from typing import BinaryIO

import pyarrow.parquet as pq

from warpwatch.dashboard.exports.arrow import SCHEMA, arrow_tables
from warpwatch.dashboard.store.measured import Measured


def write_parquet(measurements: Iterable[Measured], out: BinaryIO) -> int:
    """Zstandard inside; parameters are JSON text, dates UTC to the millisecond. Returns the rows."""
    count = 0
    with pq.ParquetWriter(out, SCHEMA, compression="zstd") as writer:
        for table in arrow_tables(measurements):
            writer.write_table(table)
            count += table.num_rows
    return count

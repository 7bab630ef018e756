"""Changes and episodes as CSV, JSON and Parquet, one row each."""

import csv
import json
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO, TextIO

import orjson

from ...model.changepoint import Regression
from ...text.tables import csv_text
from .measurement_rows import SERIES_COLUMNS, series_cells

COLUMNS = (
    *SERIES_COLUMNS,
    "kind",  # step, machine state, transient, drift
    "commit",  # full hash: the first of the new level, or of the episode
    "date",  # of the commit
    "previous_commit",  # the previous measured one
    "range_start",  # with 95 % the change came after this commit; of an episode, the one before it
    "range_end",  # and by this one; of an episode, its last
    "before",  # levels, in unit
    "after",
    "magnitude",  # after / before - 1
    "low",  # 95 %
    "high",
    "p_value",  # of the rank test
    "chance",  # p-value adjusted for the search over commits; null for an episode
    "q_value",  # among all series of the run; null if not judged
    "control",  # controls that were compared; null without any
    "control_share",  # share of the change in the controls
    "control_share_low",  # 95 %
    "control_share_high",
    "is_worse",
    "is_across_gpus",  # no GPU measured both commits; levels and change are GPU-adjusted
    "gpus",  # that measured the new level, of GPU-adjusted values
    "is_confirmed",  # by further runs of both commits in turns
)
_FLAGS = ("is_worse", "is_across_gpus", "is_confirmed")
_TEXTS = frozenset(
    {*SERIES_COLUMNS, "kind", "commit", "date", "previous_commit", "range_start", "range_end", "control"}
)


def write_changes_csv(changes: Iterable[Regression], out: TextIO) -> int:
    """CSV (RFC 4180) with a header, parameters as JSON, dates ISO 8601, empty for null. Returns the number of rows."""
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    count = 0
    for row in _rows(changes):
        row["parameters"] = json.dumps(row["parameters"], ensure_ascii=False)
        writer.writerow(map(csv_text, row.values()))
        count += 1
    return count


def write_changes_json(changes: Iterable[Regression], out: TextIO) -> int:
    """One object, {"schema": 1, "rows": [...]}, one row per line. Returns the number of rows."""
    out.write('{"schema": 1, "rows": [')
    count = 0
    for row in _rows(changes):
        out.write(f"{',' if count else ''}\n{orjson.dumps(row).decode()}")
        count += 1
    out.write("\n]}\n")
    return count


def write_changes_parquet(changes: Iterable[Regression], out: BinaryIO) -> int:
    """Parquet; parameters are JSON text, dates ISO 8601. Requires pyarrow. Returns the number of rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = [{**row, "parameters": json.dumps(row["parameters"], ensure_ascii=False)} for row in _rows(changes)]
    types = {name: pa.string() if name in _TEXTS else pa.float64() for name in COLUMNS}
    types |= dict.fromkeys(_FLAGS, pa.bool_())
    pq.write_table(pa.Table.from_pylist(rows, schema=pa.schema(list(types.items()))), out, compression="zstd")
    return len(rows)


def _rows(changes: Iterable[Regression]) -> Iterator[dict[str, Any]]:
    for row in changes:
        change, share = row.change, row.change.share
        cells = (
            change.kind.value,
            change.commit.hash,
            change.commit.date.isoformat(),
            change.previous_commit.hash,
            change.range_start.hash,
            change.range_end.hash,
            change.before,
            change.after,
            change.magnitude,
            change.ci_low,
            change.ci_high,
            change.p_value,
            change.p_adjusted,
            change.q_value,
            share.control.value if share else None,
            *((share.value, share.ci_low, share.ci_high) if share else (None, None, None)),
            change.is_worse,
            change.is_across_gpus,
            change.gpus,
            change.is_confirmed,
        )
        yield dict(zip(COLUMNS, (*series_cells(row.series), *cells), strict=True))

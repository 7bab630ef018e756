"""Rows of measurements and changes for exports, and measurements as a pandas DataFrame for notebooks."""

import csv
import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from functools import lru_cache
from itertools import repeat
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO

import numpy as np
import orjson

from ..model.changepoint import Regression
from ..model.series import Series
from ..settings import Settings
from ..store import Store, queries
from ..store.chunks import optional
from ..store.column_records import Measured
from ..text.tables import csv_text

if TYPE_CHECKING:
    import pandas as pd

SERIES_COLUMNS = (
    "project",
    "series",  # key in URLs of pages
    "benchmark",
    "parameters",  # by name, as text
    "workload",  # the parameters of these names;
    "implementation",  # null without one
    "metric",
    "unit",  # of value, q25 and q75, which are as recorded
    "better",  # lower or higher
    "machine",
    "environment",
)
COLUMNS = (
    *SERIES_COLUMNS,
    "gpu",  # UUID; null if unknown
    "commit",  # full hash
    "date",  # when it was committed
    "position",  # of the commit in the project's order
    "run",
    "run_time",  # when that began; null where it is not known
    "value",  # null unless the status is ok
    "q25",  # quartiles of the samples, and how many those were
    "q75",
    "sample_count",
    "adjusted_value",  # as the newest GPU and software would have measured; null if one GPU measured, or not known
    "status",  # ok, invalid, failed, unavailable or unchanged
    "reason",  # of what is not ok
    "gpu_spread",  # of the series: 95 % of unchanged code differ by less between GPUs; null if one GPU measured
    "verdict",  # of the series at its newest commit; null if it is not judged
)


def series_cells(series: Series) -> tuple[Any, ...]:
    """The cells that all rows of a series share. Parameters are a mapping."""
    return (
        series.project,
        series.key,
        series.benchmark,
        dict(series.parameters),
        series.workload,
        series.implementation,
        series.metric.name,
        series.metric.unit,
        series.metric.better.value,
        series.machine,
        series.environment,
    )


def point_cells(measured: Measured) -> Iterator[tuple[Any, ...]]:
    """The cells of each row that its series does not have, as JSON has them: dates ISO 8601."""
    started = optional(measured.started_ms, measured.started_ms < 0)
    numbers = (optional(each, np.isnan(each)) for each in (measured.value, measured.q25, measured.q75))
    return zip(
        measured.gpu.texts(),
        measured.commit.texts(),
        map(_iso, measured.date_ms.tolist()),
        measured.position.tolist(),
        measured.run.texts(),
        map(_iso, started),
        *numbers,
        optional(measured.sample_count, measured.sample_count < 0),
        optional(measured.adjusted_value, np.isnan(measured.adjusted_value)),
        measured.status.texts(),
        measured.reason.texts(),
        repeat(measured.gpu_spread, len(measured)),
        repeat(measured.verdict.value if measured.verdict is not None else None, len(measured)),
        strict=True,
    )


@lru_cache(maxsize=100_000)  # every series has the same commits
def _iso(milliseconds: int | None) -> str | None:
    return None if milliseconds is None else datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat()


_PARAMETERS = COLUMNS.index("parameters")


def write_csv(measurements: Iterable[Measured], out: TextIO) -> int:
    """CSV (RFC 4180) with a header, parameters as JSON, dates ISO 8601, empty for null. Returns the number of rows."""
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    count = 0
    for measured in measurements:
        shared = list(series_cells(measured.series))
        shared[_PARAMETERS] = json.dumps(shared[_PARAMETERS], ensure_ascii=False)
        shared = list(map(csv_text, shared))
        writer.writerows([*shared, *map(csv_text, row)] for row in point_cells(measured))
        count += len(measured)
    return count


def write_json(measurements: Iterable[Measured], out: TextIO) -> int:
    """One object, {"schema": 1, "rows": [...]}, one row per line, dates ISO 8601. Returns the number of rows."""
    rows = (
        orjson.dumps(dict(zip(COLUMNS, (*shared, *cells), strict=True))).decode()
        for measured in measurements
        for shared in [series_cells(measured.series)]
        for cells in point_cells(measured)
    )
    return _write_json(rows, out)


def _write_json(rows: Iterable[str], out: TextIO) -> int:
    count = 0
    out.write('{"schema": 1, "rows": [')
    for count, row in enumerate(rows, start=1):
        out.write(f"{',' if count > 1 else ''}\n{row}")
    out.write("\n]}\n")
    return count


CHANGE_COLUMNS = (
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
    writer.writerow(CHANGE_COLUMNS)
    count = 0
    for row in _rows(changes):
        row["parameters"] = json.dumps(row["parameters"], ensure_ascii=False)
        writer.writerow(map(csv_text, row.values()))
        count += 1
    return count


def write_changes_json(changes: Iterable[Regression], out: TextIO) -> int:
    """One object, {"schema": 1, "rows": [...]}, one row per line. Returns the number of rows."""
    return _write_json((orjson.dumps(row).decode() for row in _rows(changes)), out)


def write_changes_parquet(changes: Iterable[Regression], out: BinaryIO) -> int:
    """Parquet; parameters are JSON text, dates ISO 8601. Requires pyarrow. Returns the number of rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = [{**row, "parameters": json.dumps(row["parameters"], ensure_ascii=False)} for row in _rows(changes)]
    types = {name: pa.string() if name in _TEXTS else pa.float64() for name in CHANGE_COLUMNS}
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
        yield dict(zip(CHANGE_COLUMNS, (*series_cells(row.series), *cells), strict=True))


def history(
    project: str | None = None,
    *,
    benchmark: str = "",
    metric: str | None = None,
    machine: str | None = None,
    since: datetime | str | None = None,
    database: str | None = None,
) -> "pd.DataFrame":
    """Every measurement of a project, one row each, by benchmark, commit and run.

    Filters: `benchmark` is a part of the name (case-insensitive), `since` a date (ISO 8601; default zone UTC).
    `project` is optional if the store has only one. `database` is a URL or a path; default: WARPWATCH_DATABASE, else
    .warpwatch/warpwatch.db below the current folder.

    Columns are those of `warpwatch export` (`cli/measurement_rows.py`): `value`, `q25` and `q75` are floats as
    recorded, in the row's `unit`, NaN where `status` is not "ok"; `adjusted_value` is NaN where one GPU measured;
    `date` and `run_time` are UTC; `position` counts a project's commits in order; `sample_count` may be missing; the
    rest are categories. `parameters` is a JSON object. The index is a plain range.

    Raises LookupError if there is no such project, ImportError without pandas and pyarrow, and what Store raises.
    """
    try:
        import pandas as pd
        import pyarrow as pa

        from .arrow import SCHEMA, arrow_tables
    except ModuleNotFoundError as error:
        raise ImportError(f"a history as a DataFrame requires {error.name}: pip install 'warpwatch[export]'") from error
    store = Store(database or Settings.from_env().database)
    try:
        name = _project(store, project)
        measurements = queries.measurements(
            store, name, benchmark=benchmark, metric=metric, machine=machine, since=_moment(since)
        )
        tables = list(arrow_tables(measurements)) or [SCHEMA.empty_table()]
    finally:
        store.close()
    counts = {pa.int32(): pd.Int32Dtype()}
    return pa.concat_tables(tables).unify_dictionaries().to_pandas(types_mapper=counts.get)


def _project(store: Store, name: str | None) -> str:
    names = [project.name for project in queries.projects(store)]
    if name is None and len(names) == 1:
        return names[0]
    if name is None or name not in names:
        problem = "no project given" if name is None else f"no project {name!r}"
        raise LookupError(f"{problem}; projects in {store.url}: {', '.join(names) or 'none'}")
    return name


def _moment(since: datetime | str | None) -> datetime | None:
    moment = datetime.fromisoformat(since) if isinstance(since, str) else since
    return moment.replace(tzinfo=UTC) if moment is not None and moment.tzinfo is None else moment

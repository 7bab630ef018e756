"""Read and write the points of series, stored in chunks (chunks.py).

Points are only added. An import adds one chunk to each series it touches. Many short chunks of a series are joined, so
that both adding a point and reading a history stay cheap.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlalchemy import Connection, delete, func, select

from . import schema
from .chunks import (
    Columns,
    SampleColumns,
    decode,
    decode_samples,
    encode,
    encode_samples,
    join,
    join_samples,
)
from .statements import id_in, insert_rows

LONG = 256  # points above which a chunk is not joined
_MOST_SHORT = 24  # short chunks of a series before they are joined
_SPREAD = 16  # varies that number by series, so that no import has to join the chunks of all series
_AT_ONCE = 500  # ids in one query


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """A range of run ids, to skip chunks without any of them."""

    first: int
    last: int


def read_points(connection: Connection, series: Collection[int], *, runs: Runs | None = None) -> dict[int, Columns]:
    """Every point of the series in the order of writing; series without points are omitted.

    With `runs`, chunks without a run in the range are skipped; points of other runs may remain.
    """
    parts: dict[int, list[Columns]] = {}
    for number, data in read_chunks(connection, series, runs=runs):
        parts.setdefault(number, []).append(decode(data))
    return {number: join(each) for number, each in parts.items()}


def with_points(connection: Connection, rows: Sequence[Any]) -> Iterator[tuple[Any, Columns]]:
    """Rows with a series' `id`, each with the points; rows without points are omitted."""
    points = read_points(connection, [row.id for row in rows])
    return ((row, points[row.id]) for row in rows if row.id in points)


def read_chunks(
    connection: Connection, series: Collection[int], *, runs: Runs | None = None
) -> Iterator[tuple[int, bytes]]:
    """Series id and data of each chunk, for `decode`; a series' chunks in the order of writing."""
    yield from _chunks(connection, schema.chunk, series, runs)


def read_samples(connection: Connection, series: Collection[int]) -> dict[int, SampleColumns]:
    """The stored samples of the series; series without any are omitted."""
    parts: dict[int, list[SampleColumns]] = {}
    for number, data in _chunks(connection, schema.sample_chunk, series, None):
        parts.setdefault(number, []).append(decode_samples(data))
    return {number: join_samples(each) for number, each in parts.items()}


def _chunks(
    connection: Connection, table: Any, series: Collection[int], runs: Runs | None
) -> Iterator[tuple[int, bytes]]:
    for batch in batches(list(series), _AT_ONCE):
        query = select(table.c.series_id, table.c.data).where(id_in(connection, table.c.series_id, batch))
        if runs is not None:
            query = query.where(table.c.first_run <= runs.last, table.c.last_run >= runs.first)
        yield from connection.execute(query.order_by(table.c.id)).all()


def recorded_at(
    connection: Connection, project: int, commits: Collection[int], *, only_analysed: bool = False
) -> list[int]:
    """Ids of the series with a point at one of the commits; `only_analysed`: without stale series."""
    run, series, chunk = schema.run, schema.series, schema.chunk
    machines = connection.execute(
        select(run.c.machine_id, func.min(run.c.id), func.max(run.c.id))
        .where(run.c.project_id == project, id_in(connection, run.c.commit_id, commits))
        .group_by(run.c.machine_id)
    ).all()
    ids: set[int] = set()
    for machine, first, last in machines:
        query = (
            select(chunk.c.series_id, chunk.c.data)
            .join(series, series.c.id == chunk.c.series_id)
            .where(
                series.c.project_id == project,
                series.c.machine_id == machine,
                chunk.c.first_run <= last,
                chunk.c.last_run >= first,
            )
        )
        rows = connection.execute(query.where(~series.c.stale) if only_analysed else query)
        ids.update(number for number, data in rows if np.isin(decode(data).commit, list(commits)).any())
    return sorted(ids)


def add_points(connection: Connection, points: Iterable[tuple[int, Columns]]) -> None:
    """Add a chunk to each of the series; its points must be new."""
    rows = [_row(number, columns.run, encode(columns)) for number, columns in points]
    if rows:
        insert_rows(connection, schema.chunk, rows)
        _join_short(connection, [row["series_id"] for row in rows])


def add_samples(connection: Connection, samples: Iterable[tuple[int, SampleColumns]]) -> None:
    rows = [_row(number, columns.run, encode_samples(columns)) for number, columns in samples]
    insert_rows(connection, schema.sample_chunk, rows)


def replace_points(connection: Connection, series: int, points: Columns) -> None:
    connection.execute(delete(schema.chunk).where(schema.chunk.c.series_id == series))
    parts = [points.take(slice(start, start + 2 * LONG)) for start in range(0, len(points), 2 * LONG)]
    if parts:
        insert_rows(connection, schema.chunk, [_row(series, part.run, encode(part)) for part in parts])


def replace_samples(connection: Connection, series: int, samples: SampleColumns) -> None:
    connection.execute(delete(schema.sample_chunk).where(schema.sample_chunk.c.series_id == series))
    if len(samples.run):
        insert_rows(connection, schema.sample_chunk, [_row(series, samples.run, encode_samples(samples))])


def keys_of(points: Columns) -> set[tuple[int, int]]:
    """The commit and run of each point, unique within a series."""
    return set(zip(points.commit.tolist(), points.run.tolist(), strict=True))


def batches(items: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    """Slices of at most `size` items."""
    return (items[start : start + size] for start in range(0, len(items), size))


def _row(series: int, runs: Any, data: bytes) -> dict[str, Any]:
    return {
        "series_id": series,
        "points": len(runs),
        "first_run": int(np.min(runs)),
        "last_run": int(np.max(runs)),
        "data": data,
    }


def _join_short(connection: Connection, series: Sequence[int]) -> None:
    """Join the short chunks, also of samples, of series with many."""
    for table in (schema.chunk, schema.sample_chunk):
        crowded = []
        for batch in batches(series, _AT_ONCE):
            rows = connection.execute(
                select(table.c.series_id, func.count())
                .where(id_in(connection, table.c.series_id, batch), table.c.points < LONG)
                .group_by(table.c.series_id)
                .having(func.count() >= _MOST_SHORT)
            )
            crowded += [number for number, count in rows if count >= _MOST_SHORT + number % _SPREAD]
        for batch in batches(crowded, _AT_ONCE):
            _join(connection, table, batch)


def _join(connection: Connection, table: Any, series: Sequence[int]) -> None:
    short = connection.execute(
        select(table.c.id, table.c.series_id, table.c.data)
        .where(id_in(connection, table.c.series_id, series), table.c.points < LONG)
        .order_by(table.c.id)
    ).all()
    parts: dict[int, list[bytes]] = {}
    for _, number, data in short:
        parts.setdefault(number, []).append(data)
    connection.execute(delete(table).where(id_in(connection, table.c.series_id, series), table.c.points < LONG))
    rows = []
    for number, each in parts.items():
        if table is schema.chunk:
            points = join([decode(data) for data in each])
            rows.append(_row(number, points.run, encode(points)))
        else:
            samples = join_samples([decode_samples(data) for data in each])
            rows.append(_row(number, samples.run, encode_samples(samples)))
    insert_rows(connection, table, rows)

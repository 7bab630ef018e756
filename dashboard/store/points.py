"""The points of series in the database: rows that each hold a stretch of one series (chunks.py).

Points are only added. What an import brings is one stretch more of each series it touches; when a series has many short
ones they are joined into a longer one, so that neither adding a point nor reading a history costs more than it should.
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
    encode_each,
    encode_samples,
    join,
    join_samples,
)
from .statements import id_in, insert_rows

LONG = 256  # points from which a stretch is left as it is
_MOST_SHORT = 24  # short stretches of a series before they are joined
_SPREAD = 16  # series join their stretches at different times, so that no import has to join all of them
_AT_ONCE = 500  # ids in one query


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """A range of run ids, to pass over the stretches that hold none of them."""

    first: int
    last: int


def read_points(connection: Connection, series: Collection[int], *, runs: Runs | None = None) -> dict[int, Columns]:
    """Every point of these series in the order they were written; those without points are left out.

    With `runs`, stretches without a run in that range may be left out; points of other runs may still be among them.
    """
    parts: dict[int, list[Columns]] = {}
    for number, data in read_chunks(connection, series, runs=runs):
        parts.setdefault(number, []).append(decode(data))
    return {number: join(each) for number, each in parts.items()}


def with_points(connection: Connection, rows: Sequence[Any]) -> Iterator[tuple[Any, Columns]]:
    """Rows whose `id` is a series', each with its points; rows without points are left out."""
    points = read_points(connection, [row.id for row in rows])
    return ((row, points[row.id]) for row in rows if row.id in points)


def read_chunks(
    connection: Connection, series: Collection[int], *, runs: Runs | None = None
) -> Iterator[tuple[int, bytes]]:
    """The series of each stretch and its bytes, as `decode` reads them; a series' own in the order written."""
    yield from _stretches(connection, schema.chunk, series, runs)


def read_samples(connection: Connection, series: Collection[int]) -> dict[int, SampleColumns]:
    """The samples that are kept of these series; series without any are left out."""
    parts: dict[int, list[SampleColumns]] = {}
    for number, data in _stretches(connection, schema.sample_chunk, series, None):
        parts.setdefault(number, []).append(decode_samples(data))
    return {number: join_samples(each) for number, each in parts.items()}


def _stretches(
    connection: Connection, table: Any, series: Collection[int], runs: Runs | None
) -> Iterator[tuple[int, bytes]]:
    for some in batches(list(series), _AT_ONCE):
        query = select(table.c.series_id, table.c.data).where(id_in(connection, table.c.series_id, some))
        if runs is not None:
            query = query.where(table.c.first_run <= runs.last, table.c.last_run >= runs.first)
        yield from connection.execute(query.order_by(table.c.id)).all()


def recorded_at(
    connection: Connection, project: int, commits: Collection[int], *, only_analysed: bool = False
) -> list[int]:
    """The series of a project that have a point at one of these commits; with `only_analysed`, those not stale."""
    run, series, chunk = schema.run, schema.series, schema.chunk
    machines = connection.execute(
        select(run.c.machine_id, func.min(run.c.id), func.max(run.c.id))
        .where(run.c.project_id == project, id_in(connection, run.c.commit_id, commits))
        .group_by(run.c.machine_id)
    ).all()
    found: set[int] = set()
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
        found.update(number for number, data in rows if np.isin(decode(data).commit, list(commits)).any())
    return sorted(found)


def add_points(connection: Connection, points: Iterable[tuple[int, Columns]]) -> None:
    """Adds a stretch to each of these series, whose points must not be there yet."""
    rows = [_row(number, columns.run, encode(columns)) for number, columns in points]
    if rows:
        insert_rows(connection, schema.chunk, rows)
        _join_short(connection, [row["series_id"] for row in rows])


def add_a_point_each(connection: Connection, series: Sequence[int], points: Columns) -> None:
    """Adds a stretch of one point to each of these series: what `add_points` does, for all of them at once."""
    rows = [
        {"series_id": number, "points": 1, "first_run": run, "last_run": run, "data": data}
        for number, run, data in zip(series, points.run.tolist(), encode_each(points), strict=True)
    ]
    insert_rows(connection, schema.chunk, rows)
    _join_short(connection, series)


def add_samples(connection: Connection, samples: Iterable[tuple[int, SampleColumns]]) -> None:
    """Adds the samples of points that are added."""
    rows = [_row(number, columns.run, encode_samples(columns)) for number, columns in samples]
    if rows:
        insert_rows(connection, schema.sample_chunk, rows)


def replace_points(connection: Connection, series: int, points: Columns) -> None:
    """Puts these in place of all points of a series, in stretches of the usual length."""
    connection.execute(delete(schema.chunk).where(schema.chunk.c.series_id == series))
    parts = [points.take(slice(start, start + 2 * LONG)) for start in range(0, len(points), 2 * LONG)]
    if parts:
        insert_rows(connection, schema.chunk, [_row(series, part.run, encode(part)) for part in parts])


def replace_samples(connection: Connection, series: int, samples: SampleColumns) -> None:
    """Puts these in place of all samples of a series."""
    connection.execute(delete(schema.sample_chunk).where(schema.sample_chunk.c.series_id == series))
    if len(samples.run):
        insert_rows(connection, schema.sample_chunk, [_row(series, samples.run, encode_samples(samples))])


def keys_of(points: Columns) -> set[tuple[int, int]]:
    """The commit and run of each point: there is one point of a series for each pair."""
    return set(zip(points.commit.tolist(), points.run.tolist(), strict=True))


def batches(items: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    """The items, so many at a time."""
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
    """Joins the short stretches of those series that have many; of samples too."""
    for table in (schema.chunk, schema.sample_chunk):
        crowded = []
        for some in batches(series, _AT_ONCE):
            rows = connection.execute(
                select(table.c.series_id, func.count())
                .where(id_in(connection, table.c.series_id, some), table.c.points < LONG)
                .group_by(table.c.series_id)
                .having(func.count() >= _MOST_SHORT)
            )
            crowded += [number for number, count in rows if count >= _MOST_SHORT + number % _SPREAD]
        for some in batches(crowded, _AT_ONCE):
            _join(connection, table, some)


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

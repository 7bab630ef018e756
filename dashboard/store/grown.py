"""Stale series that have only grown since the analysis saw them: their tails and new points out, summaries in."""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from sqlalchemy import Connection, exists, select, update

from warpwatch.dashboard.statistics.summary import Summary
from warpwatch.dashboard.store import tables
from warpwatch.dashboard.store.analysed import Newest, StaleProject, still_current, summary_row, want_judgement
from warpwatch.dashboard.store.calendar import Calendar, PointRow
from warpwatch.dashboard.store.choosing import is_among
from warpwatch.dashboard.store.columns import decode_all
from warpwatch.dashboard.store.rows import insert_or_replace
from warpwatch.dashboard.store.tails import Tail, decode_tail, write_tails
from warpwatch.dashboard.verdict import Verdict


class Grown(NamedTuple):
    """A series with what has come to it since its tail was written."""

    id: int
    metric: str
    unit: str
    revision: int
    tail: Tail
    new: Sequence[PointRow]
    verdict: Verdict | None  # last said of the step that its summary tells, if it tells one


class Continued(NamedTuple):
    """A series that goes on as before."""

    series_id: int
    revision: int
    newest: Newest
    summary: Summary
    tail: Tail
    last_run: int


def take_grown(
    connection: Connection, project: StaleProject, calendar: Calendar, *, after: int, limit: int
) -> list[Grown]:  # fmt: skip
    """Up to `limit` stale series with a tail and points after it, of ids above `after` and in their order."""
    series, tail, summary, chunk = tables.series, tables.tail, tables.summary, tables.chunk
    has_more = exists().where(chunk.c.series_id == tail.c.series_id, chunk.c.last_run > tail.c.last_run)
    rows = connection.execute(
        select(
            series.c.id, series.c.metric, series.c.unit, series.c.revision, tail.c.last_run, tail.c.data,
            summary.c.verdict, summary.c.change_is_step,
        )
        .join(tail, tail.c.series_id == series.c.id)
        .join(summary, summary.c.series_id == series.c.id)
        .where(series.c.project_id == project.id, series.c.stale, series.c.id > after, has_more)
        .order_by(series.c.id)
        .limit(limit)
    ).all()  # fmt: skip
    newer = connection.execute(
        select(chunk.c.series_id, tail.c.last_run, chunk.c.data)
        .join(tail, tail.c.series_id == chunk.c.series_id)
        .where(
            is_among(connection, chunk.c.series_id, [row.id for row in rows]), chunk.c.last_run > tail.c.last_run
        )
    ).all()  # fmt: skip
    counts, points = decode_all([data for _, _, data in newer])
    whose, last_run = (np.repeat([row[at] for row in newer], counts) for at in (0, 1))
    is_new = points.run > last_run
    new: dict[int, list[PointRow]] = defaultdict(list)
    for point in calendar.as_rows(whose[is_new].tolist(), points.take(is_new)):
        new[point.series_id].append(point)
    return [
        Grown(
            id=row.id, metric=row.metric, unit=row.unit, revision=row.revision, tail=decode_tail(row.data),
            new=new[row.id], verdict=Verdict(row.verdict) if row.change_is_step else None,
        )
        for row in rows
    ]  # fmt: skip


def write_continued(connection: Connection, found: Sequence[Continued]) -> int:
    """Writes the summaries and tails; returns of how many series. These are stale no more; their changes stand.

    Series that have changed since are passed over, and stay stale.
    """
    ids = still_current(connection, {each.series_id: each.revision for each in found}).keys()
    found = [each for each in found if each.series_id in ids]
    if not found:
        return 0
    rows = [summary_row(each.series_id, each.newest, each.summary) for each in found]
    insert_or_replace(connection, tables.summary, rows)
    # A verdict may come from a judgement older than another process' newest one, and a control may have moved on.
    machine = tables.series.c.machine_id
    theirs = select(machine).where(is_among(connection, tables.series.c.id, ids)).distinct()
    want_judgement(connection, connection.execute(theirs).scalars().all())
    write_tails(connection, [(each.series_id, each.last_run, each.tail) for each in found])
    series = tables.series
    connection.execute(update(series).where(is_among(connection, series.c.id, ids)).values(stale=False))
    return len(found)

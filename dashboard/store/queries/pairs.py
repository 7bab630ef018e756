"""Two commits side by side: what `check` compares."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from sqlalchemy import Connection, Row, or_, select

from warpwatch.dashboard.metrics import metric
from warpwatch.dashboard.statistics.comparison import RunValue
from warpwatch.dashboard.store import tables
from warpwatch.dashboard.store.queries.reading import project_id, select_series, series_record, workloads
from warpwatch.dashboard.store.records import Series, Status
from warpwatch.dashboard.store.rows import STATUS_OF_CODE
from warpwatch.dashboard.store.store import Store

HISTORY_COMMITS = 100  # that the noise is taken from: those before the later of the two, and as many after


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """What a series has at one commit: runs with a number, and the newest status where none has."""

    runs: tuple[RunValue, ...]
    status: Status | None  # None: no record
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One series at two commits, with the levels of the commits around them, in order."""

    series: Series
    base: Side
    head: Side
    levels: tuple[float, ...]
    span: tuple[int, int] | None  # the places of base and head among the levels; None if either has no number


def pairs(
    store: Store, project: str, base: str, head: str, *, machine: str | None = None, all_metrics: bool = False
) -> tuple[Pair, ...]:
    """Series of judged metrics (or all) with a record at either commit, given by full hash; baselines among them."""
    series = tables.series
    with store.read() as connection:
        owner = project_id(connection, project)
        ends = connection.execute(
            select(tables.commit.c.hash, tables.commit.c.id, tables.commit.c.position).where(
                tables.commit.c.project_id == owner, tables.commit.c.hash.in_([base, head])
            )
        ).all()
        id_of = {row.hash: row.id for row in ends}
        if owner is None or not {base, head} <= id_of.keys():
            return ()
        here = select(tables.measurement.c.series_id).where(tables.measurement.c.commit_id.in_(id_of.values()))
        where: list[Any] = [series.c.project_id == owner, series.c.id.in_(here)]
        if machine is not None:
            where.append(tables.machine.c.name == machine)
        rows = connection.execute(
            select_series().where(*where).order_by(tables.machine.c.name, tables.benchmark.c.name, series.c.id)
        ).all()
        rows = [row for row in rows if all_metrics or metric(row.metric, row.unit).is_judged]
        known = workloads(connection, owner)
        newest = max((row.position for row in ends if row.position is not None), default=0)
        histories = _histories(connection, [row.id for row in rows], newest, list(id_of.values()))
    return tuple(_pair(series_record(row, known), histories.get(row.id, ()), id_of[base], id_of[head]) for row in rows)


def _pair(series: Series, rows: Sequence[Row[Any]], base: int, head: int) -> Pair:
    groups = itertools.groupby((row for row in rows if row.value is not None), key=lambda row: row.commit_id)
    level_of = {commit: median(row.value for row in group) for commit, group in groups}  # in the commits' order
    places = list(level_of)
    return Pair(
        series=series,
        base=_side(rows, base),
        head=_side(rows, head),
        levels=tuple(level_of.values()),
        span=(places.index(base), places.index(head)) if base in level_of and head in level_of else None,
    )


def _histories(
    connection: Connection, ids: Sequence[int], newest: int, always: Sequence[int]
) -> dict[int, list[Row[Any]]]:
    table, commit, run = tables.measurement, tables.commit, tables.run
    found: dict[int, list[Row[Any]]] = {}
    for start in range(0, len(ids), 500):
        rows = connection.execute(
            select(table)
            .join(commit, commit.c.id == table.c.commit_id)
            .join(run, run.c.id == table.c.run_id)
            .where(
                table.c.series_id.in_(ids[start : start + 500]),
                or_(
                    commit.c.position.between(newest - HISTORY_COMMITS, newest + HISTORY_COMMITS),
                    commit.c.id.in_(always),  # base may be further back
                ),
            )
            .order_by(table.c.series_id, commit.c.position, run.c.started_ms, run.c.id)
        )
        for series_id, group in itertools.groupby(rows, key=lambda row: row.series_id):
            found[series_id] = list(group)
    return found


def _side(rows: Sequence[Row[Any]], commit: int) -> Side:
    at = [row for row in rows if row.commit_id == commit]
    runs = tuple(
        RunValue(value=row.value, q25=row.q25, q75=row.q75, sample_count=row.sample_count)
        for row in at
        if row.value is not None
    )
    status = Status.OK if runs else STATUS_OF_CODE[at[-1].status] if at else None
    return Side(runs=runs, status=status, reason=at[-1].reason if at and not runs else None)

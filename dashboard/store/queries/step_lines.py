"""Values around changes, for small charts: of several series at once, with the fastest baseline of each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlalchemy import Connection

from ...model.changepoint import Regression
from .. import schema
from ..engine import Store
from ..mappers import commit_ids, project_id, select_series, series_record, workloads
from ..statements import id_in
from .series_lines import SeriesLine, gpu_ratios, lines, project_order

_AROUND = 20  # commits before the change, and from it on


@dataclass(frozen=True, slots=True, kw_only=True)
class StepLine:
    """Values by commit around a change, GPU-adjusted where known, oldest first."""

    values: tuple[float, ...]  # medians of runs
    first: int  # index of the first value of the new level
    baseline: tuple[float | None, ...]  # the fastest baseline at the same commits; empty without one


def step_lines(store: Store, project: str, changes: Sequence[Regression]) -> tuple[StepLine | None, ...]:
    """The line of each change, in their order; None for a series or commit without values."""
    if not changes:
        return ()
    with store.read() as connection:
        owner = project_id(connection, project)
        if owner is None:
            return (None,) * len(changes)
        series, keys = schema.series, {one.series.key for one in changes}
        chosen = select_series().where(series.c.project_id == owner, series.c.key.in_(keys))
        rows = {row.key: row for row in connection.execute(chosen)}
        baselines = _baselines(connection, owner, list(rows.values()))
        ids = commit_ids(connection, owner, {one.change.commit.hash for one in changes})
        own = [row.id for row in rows.values()]
        order = project_order(store, connection, owner)
        lines_of = lines(connection, order, [*own, *(number for each in baselines.values() for number in each)])
        ratios = gpu_ratios(connection, own)
    found: list[StepLine | None] = []
    for one in changes:
        row = rows.get(one.series.key)
        line = lines_of.get(row.id) if row is not None else None
        at = ids.get(one.change.commit.hash)
        if row is None or line is None or at is None:
            found.append(None)
            continue
        theirs = [lines_of[number] for number in baselines.get(row.id, ()) if number in lines_of]
        rank = int(order.ranks(np.array([at], dtype=np.int64))[0])
        found.append(_around(line, rank, line.ratios(ratios.get(row.id)), theirs))
    return tuple(found)


def _baselines(connection: Connection, owner: int, rows: Sequence[Any]) -> Mapping[int, list[int]]:
    """Ids of the baselines of each series' measurement, by the series' id."""
    table = schema.series
    with_baselines = [row for row in rows if row.implementation is not None]
    if not with_baselines:
        return {}
    known = workloads(connection, owner)
    others = connection.execute(
        select_series().where(
            table.c.project_id == owner,
            id_in(connection, table.c.benchmark_id, {row.benchmark_id for row in with_baselines}),
            table.c.machine_id.in_({row.machine_id for row in with_baselines}),
            table.c.workload.in_({row.workload for row in with_baselines}),
            table.c.implementation.is_not(None),
        )
    ).all()
    records = [(other.id, record) for other in others if (record := series_record(other, known)).is_baseline]
    own = {row.id: series for row in with_baselines if (series := series_record(row, known)).metric.is_time}
    return {
        number: [other for other, record in records if record.measures_the_same(series)]
        for number, series in own.items()
    }


def _around(
    line: SeriesLine, rank: int, ratios: Mapping[int, float], baselines: Sequence[SeriesLine]
) -> StepLine | None:
    own = line.medians()
    ranks = sorted(own)
    first = int(np.searchsorted(ranks, rank))
    low, high = max(0, first - _AROUND), first + _AROUND
    if first >= len(ranks):
        return None
    shown = ranks[low:high]
    theirs = [baseline.medians() for baseline in baselines]
    fastest = min(theirs, key=lambda each: each.get(ranks[first], np.inf), default=None)
    return StepLine(
        values=tuple(own[each] * ratios.get(each, 1.0) for each in shown),
        first=first - low,
        baseline=tuple(fastest.get(each) for each in shown) if fastest else (),
    )

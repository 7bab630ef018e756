"""Measurements and changes of a project, series by series, for exports."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
from sqlalchemy import Connection, select

from ...model.changepoint import Regression
from ...model.series import Series, Status
from ...model.verdict import Verdict
from .. import schema
from ..chunks import Columns, Floats
from ..column_records import Measured, TextColumn
from ..commit_index import CommitIndex, read_commit_index
from ..engine import Store
from ..finding_records import changes_of, episodes_of
from ..mappers import chosen_series, project_id, series_record, workloads
from ..points import batches, read_points
from ..statements import STATUS_CODES, STATUS_OF_CODE, id_in
from .latest import verdicts_within_limits

_CHANGED_SERIES_AT_ONCE = 500


def changes(
    store: Store,
    project: str,
    *,
    benchmark: str = "",
    metric: str | None = None,
    machine: str | None = None,
    since: datetime | None = None,
) -> Iterator[Regression]:
    """Changepoints and episodes of every kind, in the order of series of `measurements`.

    A read transaction stays open until the end.
    """
    with store.read() as connection:
        owner = project_id(connection, project)
        chosen = chosen_series(connection, owner, benchmark=benchmark, metric=metric, machine=machine)
        known = workloads(connection, owner)
        for rows in batches(chosen, _CHANGED_SERIES_AT_ONCE):
            ids = [row.id for row in rows]
            levels, episodes = changes_of(connection, ids), episodes_of(connection, ids)
            for row in rows:
                both = (*levels.get(row.id, ()), *episodes.get(row.id, ()))
                for change in sorted(both, key=lambda each: each.index):
                    if since is None or change.commit.date >= since:
                        yield Regression(series=series_record(row, known), change=change)


_SERIES_AT_ONCE = 50  # in memory, from one query
_STATUSES = tuple(STATUS_OF_CODE[code].value for code in range(len(STATUS_OF_CODE)))


def measurements(
    store: Store,
    project: str,
    *,
    benchmark: str = "",
    metric: str | None = None,
    machine: str | None = None,
    since: datetime | None = None,
) -> Iterator[Measured]:
    """The series by name, each with its measurements in the project's order, from one transaction.

    Filters: benchmarks that contain `benchmark`, ignoring case; metric; machine; commits dated `since` or later. Series
    without measurements are skipped. The read transaction stays open until the end.
    """
    with store.read() as connection:
        owner = project_id(connection, project)
        chosen = chosen_series(connection, owner, benchmark=benchmark, metric=metric, machine=machine)
        known = workloads(connection, owner)
        names = _names(connection, owner)
        for rows in batches(chosen, _SERIES_AT_ONCE):
            ids = [row.id for row in rows]
            points, standings = read_points(connection, ids), _standings(connection, ids)
            verdicts = verdicts_within_limits(connection, known, list(standings.values()))
            for row in rows:
                if row.id in points:
                    standing = standings.get(row.id)
                    measured = _measured(
                        series_record(row, known), points[row.id], names, since, standing, verdicts.get(row.id)
                    )
                    if len(measured):
                        yield measured


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Names:
    """Hashes and run names of a project in the order of its commit index."""

    commit_index: CommitIndex
    hashes: Sequence[str]
    runs: Sequence[str]


def _names(connection: Connection, project: int) -> _Names:
    commit, run = schema.commit, schema.run
    hashes = select(commit.c.hash).where(commit.c.project_id == project).order_by(commit.c.id)
    runs = select(run.c.name).where(run.c.project_id == project).order_by(run.c.id)
    return _Names(
        commit_index=read_commit_index(connection, project),
        hashes=connection.execute(hashes).scalars().all(),
        runs=connection.execute(runs).scalars().all(),
    )


def _standings(connection: Connection, ids: Sequence[int]) -> dict[int, Any]:
    """The columns of the series' summaries that an export needs, by series id."""
    summary = schema.summary
    rows = connection.execute(
        select(
            schema.series.c.id,
            schema.series.c.project_id,
            summary.c.verdict,
            summary.c.change_commit_id,
            summary.c.gpu_ratios,
            summary.c.gpu_spread,
        )
        .join(summary, summary.c.series_id == schema.series.c.id)
        .where(id_in(connection, summary.c.series_id, ids))
    )
    return {row.id: row for row in rows}


def _measured(
    series: Series, points: Columns, names: _Names, since: datetime | None, standing: Any, verdict: Verdict | None
) -> Measured:
    index = names.commit_index
    points = points.take(index.order(points))
    adjusted = _adjusted(points, standing.gpu_ratios if standing is not None else None)
    if since is not None:
        chosen = index.date_ms[np.searchsorted(index.commits, points.commit)] >= since.timestamp() * 1000
        points, adjusted = points.take(chosen), adjusted[chosen]
    commit, run = np.searchsorted(index.commits, points.commit), np.searchsorted(index.runs, points.run)
    return Measured(
        series=series,
        commit=TextColumn(codes=commit, words=names.hashes),
        date_ms=index.date_ms[commit],
        position=index.position[commit],
        run=TextColumn(codes=run, words=names.runs),
        started_ms=index.started_ms[run],
        gpu=TextColumn(codes=index.gpu[run] - 1, words=index.gpus),
        value=points.value,
        q25=points.q25,
        q75=points.q75,
        sample_count=points.count,
        adjusted_value=adjusted,
        status=TextColumn(codes=points.status, words=_STATUSES),
        reason=TextColumn(codes=points.reason - 1, words=points.reasons),
        gpu_spread=standing.gpu_spread if standing is not None else None,
        verdict=verdict if series.is_ours and series.metric.is_judged else None,
    )


def _adjusted(points: Columns, ratios: Sequence[float | None] | None) -> Floats:
    """GPU-adjusted values of ordered points; NaN without a ratio, which each commit with a number has in order."""
    adjusted = np.full(len(points.value), np.nan)
    good = np.flatnonzero((points.status == STATUS_CODES[Status.OK]) & ~np.isnan(points.value))
    number = np.cumsum(np.diff(points.commit[good], prepend=points.commit[good[:1]]) != 0)
    if ratios is not None and len(good) and number[-1] + 1 == len(ratios):
        adjusted[good] = points.value[good] * np.array(ratios, dtype=np.float64)[number]
    return adjusted

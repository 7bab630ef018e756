"""Points of series in the project's order: columns of all, records of a few, lines around a step."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, select

from ...model.changepoint import Regression
from ...model.series import Commit, Point, Status
from ...statistics.levels import medians_of_groups
from .. import schema
from ..chunks import NO_POINTS, Columns, Ints, optional
from ..commit_index import CommitIndex, read_commit_index
from ..engine import Store
from ..mappers import COMMIT_COLUMNS, commit_ids, commit_of, moment, project_id, select_series, series_record, workloads
from ..points import read_points
from ..statements import STATUS_CODES, STATUS_OF_CODE, id_in


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ProjectOrder:
    """A project's commit index with the rank of each commit; cached, because it is slower to read than a history."""

    commit_index: CommitIndex
    rank: Ints  # of each of `commit_index.commits`, among commits with results
    among_all: Ints  # among all commits of the repository that are counted

    def ranks(self, commits: Ints) -> Ints:
        return self.rank[np.searchsorted(self.commit_index.commits, commits)]


def project_order(store: Store, connection: Connection, project: str) -> ProjectOrder:
    """The order as this transaction sees it."""
    return store.cached_as_of(connection, project, "order of commits", lambda: _order(connection, project))


def _order(connection: Connection, project: str) -> ProjectOrder:
    commit, owner = schema.commit, project_id(connection, project)
    commit_index = read_commit_index(connection, owner)
    gaps = connection.execute(
        select(commit.c.unmeasured_before).where(commit.c.project_id == owner).order_by(commit.c.id)
    ).scalars()
    gap = np.array([each or 0 for each in gaps], dtype=np.int64)
    order = np.lexsort((commit_index.commits, commit_index.date_ms, commit_index.position))
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    among_all = np.empty(len(order), dtype=np.int64)
    among_all[order] = np.cumsum(1 + gap[order]) - 1
    return ProjectOrder(commit_index=commit_index, rank=rank, among_all=among_all)


_OK = STATUS_CODES[Status.OK]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SeriesLine:
    """One series' points by commit, then by run."""

    points: Columns
    rank: Ints  # of each point's commit

    @property
    def has_number(self) -> NDArray[np.bool_]:
        return (self.points.status == _OK) & ~np.isnan(self.points.value)

    def medians(self) -> dict[int, float]:
        """The median of each commit with a number, by the commit's rank."""
        good = self.has_number
        ranks, group = np.unique(self.rank[good], return_inverse=True)
        medians = medians_of_groups(group, self.points.value[good]) if len(ranks) else np.empty(0)
        return dict(zip(ranks.tolist(), medians.tolist(), strict=True))

    def ratios(self, by_commit: Sequence[float | None] | None) -> Mapping[int, float]:
        """GPU-adjusted over measured value, by the rank of the commit; empty if they are those of another history."""
        ranks = np.unique(self.rank[self.has_number]).tolist()
        if by_commit is None or len(by_commit) != len(ranks):
            return {}
        return {rank: ratio for rank, ratio in zip(ranks, by_commit, strict=True) if ratio is not None}

    def whole_commits(self, kept: Ints) -> Ints:
        """Indices of all points of the commits of these points: a commit's value is the median of its runs."""
        return np.flatnonzero(np.isin(self.rank, self.rank[kept]))


EMPTY = SeriesLine(points=NO_POINTS, rank=NO_POINTS.commit)


def lines(connection: Connection, order: ProjectOrder, ids: Sequence[int]) -> dict[int, SeriesLine]:
    """Points by series; series without points are omitted."""
    lines_of = {}
    for number, points in read_points(connection, ids).items():
        points = points.take(order.commit_index.order(points))
        lines_of[number] = SeriesLine(points=points, rank=order.ranks(points.commit))
    return lines_of


def gpu_ratios(connection: Connection, ids: Sequence[int]) -> dict[int, list[float | None]]:
    """GPU-adjusted over measured value of each commit with a number, of the series that several GPUs measured."""
    summary = schema.summary
    rows = connection.execute(
        select(summary.c.series_id, summary.c.gpu_ratios).where(
            id_in(connection, summary.c.series_id, ids), summary.c.gpu_ratios.is_not(None)
        )
    )
    return {row.series_id: row.gpu_ratios for row in rows}


class Records:
    """Records of chosen points, with one query for their commits and one for their runs."""

    def __init__(
        self,
        connection: Connection,
        chosen: Iterable[tuple[SeriesLine, Ints]],
        more_commits: Iterable[int] = (),
    ) -> None:
        chosen = list(chosen)
        commits = {int(n) for line, indices in chosen for n in np.unique(line.points.commit[indices])}
        commit = schema.commit
        is_chosen = id_in(connection, commit.c.id, commits | set(more_commits))
        rows = connection.execute(select(commit.c.id, commit.c.position, *COMMIT_COLUMNS).where(is_chosen))
        self.commits: Mapping[int, Commit] = {number: commit_of(*columns) for number, *columns in rows.all()}
        runs = {int(n) for line, indices in chosen for n in np.unique(line.points.run[indices])}
        run = schema.run
        query = select(run.c.id, run.c.name, run.c.started_ms, run.c.gpu)
        self._runs: Mapping[int, Any] = {
            row.id: row for row in connection.execute(query.where(id_in(connection, run.c.id, runs))).all()
        }

    def points(self, line: SeriesLine, indices: Ints) -> tuple[Point, ...]:
        taken = line.points.take(indices)
        reasons = (None, *taken.reasons)
        whole = (taken.commit, taken.run, taken.status, taken.reason)
        gapped = (optional(column, np.isnan(column)) for column in (taken.value, taken.q25, taken.q75))
        rows = zip(*(column.tolist() for column in whole), *gapped, optional(taken.count, taken.count < 0), strict=True)
        return tuple(
            [
                Point(
                    commit=self.commits[commit],
                    value=value,
                    q25=q25,
                    q75=q75,
                    sample_count=count,
                    status=STATUS_OF_CODE[status],
                    reason=reasons[reason],
                    run=self._runs[run].name,
                    run_time=moment(self._runs[run].started_ms),
                    gpu=self._runs[run].gpu,
                )
                for commit, run, status, reason, value, q25, q75, count in rows
            ]
        )


def points_of(store: Store, connection: Connection, project: str, ids: Sequence[int]) -> dict[int, tuple[Point, ...]]:
    """Records of all points of the series, by commit, then run; series without points are omitted."""
    lines_of = lines(connection, project_order(store, connection, project), ids)
    chosen = {number: (line, np.arange(len(line.rank))) for number, line in lines_of.items()}
    records = Records(connection, chosen.values())
    return {number: records.points(*line_and_indices) for number, line_and_indices in chosen.items()}


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
        series, keys = schema.series, {one.series.key for one in changes}
        chosen = select_series().where(series.c.project_id == owner, series.c.key.in_(keys))
        rows = {row.key: row for row in connection.execute(chosen)}
        baselines = _baselines(connection, owner, list(rows.values()))
        ids = commit_ids(connection, owner, {one.change.commit.hash for one in changes})
        own = [row.id for row in rows.values()]
        order = project_order(store, connection, project)
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

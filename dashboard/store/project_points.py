"""All points of a project as cached columns, for queries of thousands of series, such as comparisons of commits.

Without the cache each query would read and decode every chunk of the project.
"""

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, func, select

from . import schema
from .chunks import Columns, Ints, decode_all
from .commit_index import CommitIndex, read_commit_index
from .engine import Store, cached
from .mappers import project_id
from .points import Runs, read_chunks
from .statements import id_in

MOST_POINTS = 4_000_000  # of a cached project
_POINT_BYTES = 41
Flags = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class ProjectPoints:
    """Points of many series, sorted by series, commit, run."""

    commit_index: CommitIndex
    series: Ints  # sorted ids of series with points
    starts: Ints  # index of the first point of each, and the number of points
    points: Columns

    def __len__(self) -> int:
        return len(self.points)

    def of(self, series: int) -> slice | None:
        """The slice of the points of one series, by id; None without points."""
        row = int(np.searchsorted(self.series, series))
        is_present = row < len(self.series) and self.series[row] == series
        return slice(int(self.starts[row]), int(self.starts[row + 1])) if is_present else None

    @cached_property
    def has_number(self) -> Flags:
        return ~np.isnan(self.points.value)

    @cached_property
    def has_reruns(self) -> Flags:
        """For each series, whether a commit has several points."""
        same = self.points.commit[1:] == self.points.commit[:-1]
        same[self.starts[1:-1] - 1] = False
        reruns = np.add.reduceat(np.append(same, False), self.starts[:-1], dtype=np.int64)
        return np.asarray(reruns > 0)

    def at(self, commits: Collection[int]) -> Flags:
        """For each point, whether it belongs to one of these commits, by id."""
        is_chosen = np.zeros(int(self.commit_index.commits.max(initial=0)) + 1, dtype=bool)
        is_chosen[np.array([*commits], dtype=np.int64)] = True
        return np.asarray(is_chosen[self.points.commit])


@cached(size=lambda points: _POINT_BYTES * len(points or ()))
def project_points(store: Store, project: str) -> ProjectPoints | None:
    """All points of a project; None if there are more than are cached, and the caller must read its own."""
    chunk, series = schema.chunk, schema.series
    with store.read() as connection:
        owner = project_id(connection, project)
        mine = series.c.project_id == owner
        count = select(func.sum(chunk.c.points)).join(series, series.c.id == chunk.c.series_id).where(mine)
        if not owner or (connection.execute(count).scalar() or 0) > MOST_POINTS:
            return None
        ids = connection.execute(select(series.c.id).where(mine)).scalars().all()
        return points_of_series(connection, read_commit_index(connection, owner), ids)


def points_of_series(
    connection: Connection, commit_index: CommitIndex, ids: Collection[int], *, runs: Runs | None = None
) -> ProjectPoints:
    """The points of these series. With `runs`, points of other runs may be missing."""
    chunks = sorted(read_chunks(connection, ids, runs=runs), key=lambda chunk: chunk[0])
    counts, points = decode_all([data for _, data in chunks])
    series, firsts = np.unique([number for number, _ in chunks], return_index=True)
    before = np.concatenate([[0], np.cumsum(counts)])
    starts = np.append(before[firsts], before[-1]) if len(series) else np.zeros(1, dtype=np.int64)
    return _sorted(ProjectPoints(commit_index, series.astype(np.int64), starts, points))


def _sorted(read: ProjectPoints) -> ProjectPoints:
    """Often sorted already: commits are usually imported in order."""
    index, points = read.commit_index, read.points
    commit_rank = _ranks(index.commits, index.date_ms, index.position)
    run_rank = _ranks(index.runs, index.runs, index.started_ms)
    sort_key = np.repeat(np.arange(len(read.series)) * len(commit_rank), np.diff(read.starts))
    sort_key += commit_rank[points.commit]
    sort_key *= len(run_rank)
    sort_key += run_rank[points.run]
    if (sort_key[1:] > sort_key[:-1]).all():
        return read
    return ProjectPoints(index, read.series, read.starts, points.take(np.argsort(sort_key)))


def _ranks(ids: Ints, *keys: Any) -> NDArray[np.int32]:
    """Dense rank by id, sorted by the last key, then by those before; equal keys share a rank."""
    ranks = np.zeros(int(ids.max(initial=0)) + 1, dtype=np.int32)
    order = np.lexsort(keys)
    if len(order):
        differs = np.any([np.diff(key[order]) != 0 for key in keys], axis=0)
        ranks[ids[order]] = np.concatenate([[0], np.cumsum(differs)])
    return ranks


def runs_of(connection: Connection, commits: Collection[int]) -> Runs | None:
    """A range of ids with every run of these commits; None without runs."""
    run = schema.run
    query = select(func.min(run.c.id), func.max(run.c.id)).where(id_in(connection, run.c.commit_id, commits))
    first, last = connection.execute(query).one()
    return Runs(first=first, last=last) if first is not None else None

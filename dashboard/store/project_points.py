"""All points of a project in columns: the input of questions about thousands of series at once, such as the comparison
of two commits. They are cached: each question would otherwise read and unpack every stretch of the project.
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
from .engine import Store
from .points import Runs, read_chunks
from .statements import id_in

MOST_POINTS = 4_000_000  # of a project that is cached
_POINT_BYTES = 41
Flags = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class ProjectPoints:
    """Points of many series, one series after the other; of each by commit, then by run."""

    commit_index: CommitIndex
    series: Ints  # ids in order, of those that have points
    starts: Ints  # where the points of each begin, and the end of the last one's
    points: Columns

    def __len__(self) -> int:
        return len(self.points)

    def of(self, series: int) -> slice | None:
        """Where the points of one series stand, given by id."""
        at = int(np.searchsorted(self.series, series))
        is_there = at < len(self.series) and self.series[at] == series
        return slice(int(self.starts[at]), int(self.starts[at + 1])) if is_there else None

    @cached_property
    def has_number(self) -> Flags:
        """Of each point."""
        return ~np.isnan(self.points.value)

    @cached_property
    def is_again(self) -> Flags:
        """Of each series whether a commit has several points."""
        same = self.points.commit[1:] == self.points.commit[:-1]
        same[self.starts[1:-1] - 1] = False
        counted = np.add.reduceat(np.append(same, False), self.starts[:-1], dtype=np.int64)
        return np.asarray(counted > 0)

    def at(self, commits: Collection[int]) -> Flags:
        """Of each point whether it is of one of these commits, given by id."""
        among = np.zeros(int(self.commit_index.commits.max(initial=0)) + 1, dtype=bool)
        among[np.array([*commits], dtype=np.int64)] = True
        return np.asarray(among[self.points.commit])


def project_points(store: Store, project: str) -> ProjectPoints | None:
    """All of a project's. None if it has more than are cached: then the caller reads those that it needs."""

    def read() -> ProjectPoints | None:
        chunk, series = schema.chunk, schema.series
        with store.read() as connection:
            owner = connection.execute(select(schema.project.c.id).where(schema.project.c.name == project)).scalar()
            mine = series.c.project_id == owner
            count = select(func.sum(chunk.c.points)).join(series, series.c.id == chunk.c.series_id).where(mine)
            if owner is None or (connection.execute(count).scalar() or 0) > MOST_POINTS:
                return None
            ids = connection.execute(select(series.c.id).where(mine)).scalars().all()
            return points_of_series(connection, read_commit_index(connection, owner), ids)

    return store.cached(project, "points", read, size=lambda found: _POINT_BYTES * len(found or ()))


def points_of_series(
    connection: Connection, whole: CommitIndex, ids: Collection[int], *, runs: Runs | None = None
) -> ProjectPoints:
    """Those of these series. With `runs` those of other runs may be missing."""
    stretches = sorted(read_chunks(connection, ids, runs=runs), key=lambda one: one[0])
    counts, points = decode_all([data for _, data in stretches])
    owners, firsts = np.unique([number for number, _ in stretches], return_index=True)
    before = np.concatenate([[0], np.cumsum(counts)])
    starts = np.append(before[firsts], before[-1]) if len(owners) else np.zeros(1, dtype=np.int64)
    return _in_order(ProjectPoints(whole, owners.astype(np.int64), starts, points))


def _in_order(read: ProjectPoints) -> ProjectPoints:
    """They often are: commits are imported as they are made."""
    whole, points = read.commit_index, read.points
    commit_rank = _ranks(whole.commits, whole.date_ms, whole.position)
    run_rank = _ranks(whole.runs, whole.runs, whole.started_ms)
    place = np.repeat(np.arange(len(read.series)) * len(commit_rank), np.diff(read.starts))
    place += commit_rank[points.commit]
    place *= len(run_rank)
    place += run_rank[points.run]
    if (place[1:] > place[:-1]).all():
        return read
    return ProjectPoints(whole, read.series, read.starts, points.take(np.argsort(place)))


def _ranks(ids: Ints, *keys: Any) -> NDArray[np.int32]:
    """By id the place in an order by the last of the keys, then by those before; what is alike has the same place."""
    ranks = np.zeros(int(ids.max(initial=0)) + 1, dtype=np.int32)
    order = np.lexsort(keys)
    if len(order):
        differs = np.any([np.diff(key[order]) != 0 for key in keys], axis=0)
        ranks[ids[order]] = np.concatenate([[0], np.cumsum(differs)])
    return ranks


def runs_of(connection: Connection, commits: Collection[int]) -> Runs | None:
    """A range that holds every run of these commits."""
    run = schema.run
    wanted = select(func.min(run.c.id), func.max(run.c.id)).where(id_in(connection, run.c.commit_id, commits))
    first, last = connection.execute(wanted).one()
    return Runs(first=first, last=last) if first is not None else None

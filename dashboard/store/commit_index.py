"""A project's commits and runs as columns, by which points are ordered."""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from sqlalchemy import Connection, select

from ..model.series import UNORDERED_POSITION
from . import schema
from .chunks import Columns, Ints, optional
from .packed_entries import number_reasons


class PointRow(NamedTuple):
    """One point with the order of its commit, the start of its run and the GPU."""

    series_id: int
    commit_id: int
    run_id: int
    value: float | None
    q25: float | None
    q75: float | None
    sample_count: int | None
    status: int
    reason: str | None
    position: int
    date_ms: int
    started_ms: int | None
    gpu: str | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CommitIndex:
    """Commits and runs by id, the ids in order."""

    commits: Ints
    position: Ints
    date_ms: Ints
    runs: Ints
    started_ms: Ints  # -1: unknown
    gpu: Ints  # index in `gpus`, from one; 0: unknown
    gpus: tuple[str, ...]

    @property
    def gpu_names(self) -> tuple[str | None, ...]:
        """UUID by the number in `gpu`."""
        return (None, *self.gpus)

    def order(self, points: Columns) -> Ints:
        """Indices that sort the points by commit, then by run."""
        commit = np.searchsorted(self.commits, points.commit)
        run = np.searchsorted(self.runs, points.run)
        return np.lexsort((points.run, self.started_ms[run], self.date_ms[commit], self.position[commit]))

    def rows(self, series: int, points: Columns, *, positions: tuple[int, int] | None = None) -> list[PointRow]:
        """The points by commit, then by run; `positions`: only commits from the one position to the other."""
        order = self.order(points)
        if positions is not None:
            position = self.position[np.searchsorted(self.commits, points.commit[order])]
            order = order[(positions[0] <= position) & (position <= positions[1])]
        return self.as_rows(itertools.repeat(series, len(order)), points.take(order))

    def as_rows(self, series: Iterable[int], points: Columns) -> list[PointRow]:
        """The points in the given order; `series` has the series of each."""
        commit = np.searchsorted(self.commits, points.commit)
        run = np.searchsorted(self.runs, points.run)
        columns = (points.value, points.q25, points.q75)
        value, q25, q75 = (optional(column, np.isnan(column)) for column in columns)
        started = self.started_ms[run]
        reasons, gpus = (None, *points.reasons), (None, *self.gpus)
        reason = [reasons[n] for n in points.reason.tolist()]
        gpu = [gpus[n] for n in self.gpu[run].tolist()]
        return [
            PointRow(*each)
            for each in zip(
                series,
                points.commit.tolist(),
                points.run.tolist(),
                value,
                q25,
                q75,
                optional(points.count, points.count < 0),
                points.status.tolist(),
                reason,
                self.position[commit].tolist(),
                self.date_ms[commit].tolist(),
                optional(started, started < 0),
                gpu,
                strict=True,
            )
        ]


def read_commit_index(connection: Connection, project: int) -> CommitIndex:
    commit, run = schema.commit, schema.run
    commits = select(commit.c.id, commit.c.position, commit.c.date_ms).where(commit.c.project_id == project)
    runs = select(run.c.id, run.c.started_ms, run.c.gpu).where(run.c.project_id == project)
    commit_rows = connection.execute(commits.order_by(commit.c.id)).all()
    run_rows = connection.execute(runs.order_by(run.c.id)).all()
    number, position, date_ms = zip(*commit_rows, strict=True) if commit_rows else ((), (), ())
    run_id, started_ms, run_gpu = zip(*run_rows, strict=True) if run_rows else ((), (), ())
    gpu, gpus = number_reasons(run_gpu) if any(run_gpu) else (np.zeros(len(run_id), dtype=np.int64), ())
    return CommitIndex(
        commits=np.array(number, dtype=np.int64),
        position=_numbers(position, UNORDERED_POSITION),
        date_ms=np.array(date_ms, dtype=np.int64),
        runs=np.array(run_id, dtype=np.int64),
        started_ms=_numbers(started_ms, -1),
        gpu=gpu,
        gpus=gpus,
    )


def _numbers(numbers: Sequence[int | None], absent: int) -> Ints:
    return np.array([absent if number is None else number for number in numbers], dtype=np.int64)

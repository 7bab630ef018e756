"""The history of one series by commit, in columns: input of the detector and of the summary.

Records are made only for the few series whose single runs matter: a record for each of millions of points takes longer
than the detector.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import NamedTuple

import numpy as np

from ..model.series import Status
from ..statistics.comparison import RunValue
from ..statistics.summary import CommitLevels
from .chunks import Columns, Floats, Ints
from .commit_index import CommitIndex
from .packed_entries import number_or_none
from .statements import STATUS_CODES

_OK, _UNAVAILABLE, _UNCHANGED = (STATUS_CODES[status] for status in (Status.OK, Status.UNAVAILABLE, Status.UNCHANGED))


class Newest(NamedTuple):
    """The row that represents the newest commit of a series: the last run with a number, else the last run.

    If that commit was not measured because its machine code is unchanged, the summary's value is that of the last
    measured commit.
    """

    commit_id: int
    run_id: int
    status: int
    reason: str | None
    q25: float | None
    q75: float | None
    sample_count: int | None
    runs: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SeriesHistory:
    """The commits of a series in the project's order, without those skipped because their code is unchanged."""

    by_commit: CommitLevels
    newest: Newest
    commits: Ints  # ids of the commits with a number
    values: Columns  # runs with a number, in the same order
    starts: Ints  # index in `values` of the first run of each of `commits`
    gpu: Ints  # of each run in `values`: index in `gpus`, from one; 0: unknown
    gpus: tuple[str, ...]

    def __len__(self) -> int:
        """Commits with a number."""
        return len(self.commits)

    @property
    def levels(self) -> list[float]:
        """Median over the runs of each commit with a number."""
        level = self.by_commit.level
        return level[~np.isnan(level)].tolist()

    @property
    def is_of_one_gpu(self) -> bool:
        """Whether all numbers come from one physical GPU."""
        return bool((self.gpu == self.gpu[:1]).all())

    @property
    def sessions(self) -> set[tuple[int, str | None]]:
        """The commits with a number, each on each of its GPUs."""
        names = (None, *self.gpus)
        return {
            (commit, names[gpu]) for commit, gpu in zip(self.values.commit.tolist(), self.gpu.tolist(), strict=True)
        }

    def adjusted(self, ratios: Floats, breaks: Sequence[int]) -> "SeriesHistory":
        """With levels by commit as the newest session would have measured them; comparable from the last break on.

        Unchanged, and thus comparable by GPU, if the newest commit follows a break.
        """
        numbers = np.flatnonzero(~np.isnan(self.by_commit.level))
        if len(numbers) - max(breaks, default=0) < 2:
            return self
        level, comparable = self.by_commit.level.copy(), np.zeros(len(self.by_commit.level), dtype=bool)
        level[numbers] *= ratios
        comparable[numbers[max(breaks, default=0) :]] = True
        by_commit = replace(self.by_commit, level=level, comparable=comparable, is_adjusted=True)
        return replace(self, by_commit=by_commit)

    def runs(self) -> list[tuple[RunValue, ...]]:
        """The runs of each commit with a number."""
        return [tuple(self._runs_at(commit)) for commit in range(len(self))]

    def before(self, index: int) -> int:
        """Index of the last commit before `index` that one of its GPUs measured; the previous one if there is none."""
        if not self.is_of_one_gpu:
            mine = set(self._gpus_at(index))
            for earlier in range(index - 1, -1, -1):
                if mine & set(self._gpus_at(earlier)):
                    return earlier
        return index - 1

    def _at(self, commit: int) -> slice:
        end = self.starts[commit + 1] if commit + 1 < len(self.starts) else len(self.values)
        return slice(int(self.starts[commit]), int(end))

    def _gpus_at(self, commit: int) -> list[int]:
        gpus: list[int] = self.gpu[self._at(commit)].tolist()
        return gpus

    def _runs_at(self, commit: int) -> Iterator[RunValue]:
        runs, names = self.values.take(self._at(commit)), (None, *self.gpus)
        for row, gpu in enumerate(self._gpus_at(commit)):
            count = int(runs.count[row])
            yield RunValue(
                value=float(runs.value[row]),
                q25=number_or_none(runs.q25[row]),
                q75=number_or_none(runs.q75[row]),
                sample_count=count if count >= 0 else None,
                gpu=names[gpu],
            )


def series_history(points: Columns, commit_index: CommitIndex) -> SeriesHistory:
    position = commit_index.position[np.searchsorted(commit_index.commits, points.commit)]
    if (position[1:] <= position[:-1]).any():
        points = points.take(commit_index.order(points))
    measured = _without_skipped(points) if (points.status == _UNCHANGED).any() else points
    # A series that never had a number was not skipped for its code: its newest commit is the newest measured one.
    has_ok = (measured.status == _OK).any()
    return _history(measured, commit_index, _newest(points if has_ok else measured))


def _without_skipped(points: Columns) -> Columns:
    """Without the commits that were not measured because their machine code is unchanged; all if nothing is left."""
    starts = _starts(points.commit)
    has_ok = np.logical_or.reduceat(points.status == _OK, starts)
    is_skipped = np.logical_or.reduceat(points.status == _UNCHANGED, starts) & ~has_ok
    if is_skipped.all():
        return points
    return points.take(np.repeat(~is_skipped, np.diff(starts, append=len(points))))


def _history(points: Columns, commit_index: CommitIndex, newest: Newest) -> SeriesHistory:
    starts = _starts(points.commit)
    commit = points.commit[starts]
    numbers = np.flatnonzero((points.status == _OK) & ~np.isnan(points.value))
    commit_of_number = np.searchsorted(starts, numbers, side="right") - 1
    first = _starts(commit_of_number)
    values = points if len(numbers) == len(points) else points.take(numbers)
    gpu = commit_index.gpu[np.searchsorted(commit_index.runs, values.run)]
    level = np.full(len(starts), np.nan)
    level[commit_of_number[first]] = _medians(values.value, first)
    comparable = ~np.isnan(level)
    if len(first) and (gpu != gpu[0]).any():
        is_of_newest = np.isin(gpu, gpu[first[-1] :])
        comparable[commit_of_number[first]] = np.logical_or.reduceat(is_of_newest, first)
    last = points.status[starts[-1] :]
    absent = (last == _UNAVAILABLE) | (last == _UNCHANGED)
    return SeriesHistory(
        by_commit=CommitLevels(
            commit_id=commit,
            date_ms=commit_index.date_ms[np.searchsorted(commit_index.commits, commit)],
            level=level,
            comparable=comparable,
            newest_failed=bool(np.isnan(level[-1]) and not absent.all()),
        ),
        newest=newest,
        commits=commit[commit_of_number[first]],
        values=values,
        starts=first,
        gpu=gpu,
        gpus=commit_index.gpus,
    )


def _starts(sorted_ids: Ints) -> Ints:
    """Where each group of equal neighbours begins."""
    if not len(sorted_ids):
        return np.zeros(0, dtype=np.int64)
    return np.concatenate([[0], np.flatnonzero(sorted_ids[1:] != sorted_ids[:-1]) + 1])


def _medians(values: Floats, starts: Ints) -> Floats:
    medians = values[starts]
    if len(starts) == len(values):
        return medians
    counts = np.diff(starts, append=len(values))
    for group in np.flatnonzero(counts > 1).tolist():
        medians[group] = median(values[starts[group] : starts[group] + counts[group]].tolist())
    return medians


def _newest(points: Columns) -> Newest:
    runs = len(points) - int(_starts(points.commit)[-1])
    ok = np.flatnonzero(points.status[-runs:] == _OK)
    row = len(points) - runs + int(ok[-1]) if len(ok) else len(points) - 1
    reason, count = int(points.reason[row]), int(points.count[row])
    return Newest(
        commit_id=int(points.commit[row]),
        run_id=int(points.run[row]),
        status=int(points.status[row]),
        reason=points.reasons[reason - 1] if reason else None,
        q25=number_or_none(points.q25[row]),
        q75=number_or_none(points.q75[row]),
        sample_count=count if count >= 0 else None,
        runs=runs,
    )

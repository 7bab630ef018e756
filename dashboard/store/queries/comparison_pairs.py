"""Pairs of a comparison: each series' points at two commits, and its history around them."""

import itertools
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import NamedTuple

import numpy as np
from sqlalchemy import Connection

from ...model.series import UNORDERED_POSITION, Series, Status
from ...statistics.arrival import SESSION_GAP_S
from ...statistics.comparison import RunValue
from ..chunks import Floats, Ints
from ..commit_index import PointRow, read_commit_index
from ..engine import Store
from ..mappers import commit_ids, project_id
from ..points import batches
from ..project_points import Flags, ProjectPoints, points_of_series, project_points, runs_of
from ..statements import STATUS_CODES, STATUS_OF_CODE
from .machine_code import codes
from .series_list import series_index

# The points of many series are slices of shared columns: a record for each point would be too slow for thousands.

_SERIES_AT_ONCE = 1000  # series whose points, also of other commits, are in memory


@dataclass(frozen=True, slots=True, eq=False)
class SeriesPoints:
    """One series' points, by commit, then by run; records are made on request."""

    series: int
    ends: Sequence[PointRow]  # at the two commits
    has_reruns: bool  # a commit may have several numbers
    _all: ProjectPoints
    _slice: slice  # of `_all`
    _is_included: Flags  # of `_all`
    _rows: list[PointRow] = field(default_factory=list)

    def rows(self) -> list[PointRow]:
        if not self._rows:
            at = self._slice.start + np.flatnonzero(self._is_included[self._slice])
            self._rows.extend(self._all.commit_index.as_rows([self.series] * len(at), self._all.points.take(at)))
        return self._rows

    def levels(self, gpu: str | None) -> tuple[Ints, Floats]:
        """The commits with a number of the GPU (None: of any), in order, and the median of each."""
        own = self._slice
        at = self._is_included[own] & self._all.has_number[own]
        points, index = self._all.points, self._all.commit_index
        if gpu is not None:
            run = np.searchsorted(index.runs, points.run[own])
            at &= index.gpu[run] == index.gpus.index(gpu) + 1
        commit, value = points.commit[own][at], points.value[own][at]
        if not self.has_reruns:
            return commit, value
        groups = itertools.groupby(zip(commit.tolist(), value.tolist(), strict=True), key=lambda pair: pair[0])
        level_of = {number: median(each for _, each in group) for number, group in groups}
        return np.array([*level_of], dtype=np.int64), np.array([*level_of.values()], dtype=np.float64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PointsAround:
    """The commits at and around two, and the series with a point at one of the two."""

    commits: Sequence[int]
    series: Mapping[int, SeriesPoints]


def points_around(
    connection: Connection,
    project: int,
    ids: Collection[int],
    ends: Collection[int],
    reach: int,
    cached: ProjectPoints | None,
) -> PointsAround:
    """The points of the series at the `ends`, and at the `reach` commits before and after the newest end.

    They come from `cached`, or are read without it.
    """
    index = cached.commit_index if cached is not None else read_commit_index(connection, project)
    is_end = np.isin(index.commits, list(ends))
    positions = index.position[is_end & (index.position < UNORDERED_POSITION)]
    is_near = is_end | (np.abs(index.position - positions.max(initial=0)) <= reach)
    commits = index.commits[is_near].tolist()
    if cached is not None:
        return PointsAround(commits=commits, series=_around(cached, ids, ends, commits))
    series: dict[int, SeriesPoints] = {}
    runs = runs_of(connection, commits)
    if runs is not None:
        for batch in batches(list(ids), _SERIES_AT_ONCE):
            read = points_of_series(connection, index, batch, runs=runs)
            series |= _around(_only(read, commits), batch, ends, commits)
    return PointsAround(commits=commits, series=series)


def _only(read: ProjectPoints, commits: Collection[int]) -> ProjectPoints:
    """The points of these commits, so that the rest can be freed."""
    kept = np.flatnonzero(read.at(commits))
    ends = np.searchsorted(kept, read.starts)
    has_points = np.diff(ends) > 0
    return ProjectPoints(
        read.commit_index, read.series[has_points], np.append(ends[:-1][has_points], ends[-1]), read.points.take(kept)
    )


def _around(
    every: ProjectPoints, ids: Collection[int], ends: Collection[int], commits: Collection[int]
) -> dict[int, SeriesPoints]:
    """Points at `commits`, for the series with a point at one of the `ends`."""
    at_ends = np.flatnonzero(every.at(ends))
    row = np.searchsorted(every.starts, at_ends, side="right") - 1
    is_chosen = np.isin(every.series, list(ids))[row]
    at_ends, row = at_ends[is_chosen], row[is_chosen]
    is_included = every.at(commits)
    rows = every.commit_index.as_rows(every.series[row].tolist(), every.points.take(at_ends))
    series_rows, starts = np.unique(row, return_index=True)
    bounds = itertools.pairwise([*starts.tolist(), len(rows)])
    slices = map(slice, every.starts[series_rows].tolist(), every.starts[series_rows + 1].tolist())
    columns = zip(
        every.series[series_rows].tolist(), every.has_reruns[series_rows].tolist(), slices, bounds, strict=True
    )
    return {
        number: SeriesPoints(number, rows[start:end], has_reruns, every, own, is_included)
        for number, has_reruns, own, (start, end) in columns
    }


# A commit that was not measured because its machine code is unchanged is represented by one that ran the same code.
# Runs of two GPUs are never compared. If both commits have runs in one session, as in a gate, only those are compared,
# which excludes differences between days.

HISTORY_COMMITS = 100  # for the noise: before the later of the two commits, and as many after
SESSION_GAP_MS = int(1000 * SESSION_GAP_S)

_UNCHANGED = STATUS_CODES[Status.UNCHANGED]
_NO_CODE: Mapping[int, str] = {}
_Rows = Sequence[PointRow]


class Side(NamedTuple):
    """A series at one commit: runs with a number; newest status and reason if it has none."""

    runs: tuple[RunValue, ...]
    status: Status | None  # None: no record
    reason: str | None


class Pair(NamedTuple):
    """One series at two commits, with the levels of the commits around them, in order, all of one GPU."""

    series: Series
    base: Side
    head: Side
    levels: Floats
    commits: Ints  # of the levels
    sides: tuple[int, int]  # the commits measured for base and head
    is_one_measurement: bool  # both commits run the same machine code, and only one of them was measured
    other_gpus: tuple[str, str] | None  # the GPUs of base and head, if none measured both
    same_session: bool  # every run of base is within SESSION_GAP_MS of one of head on the same GPU, and vice versa
    reruns: tuple[tuple[float, ...], ...]  # values of equal code on one GPU in one session, around the two commits
    is_same_code: bool = False  # both were measured, and ran the same machine code
    is_complete: bool = False  # both commits were measured: a series without a record at one is gone there

    @property
    def span(self) -> tuple[int, int] | None:
        """Indices of base and head among the levels; None if either has no number."""
        order = self.commits.tolist()
        return (order.index(self.sides[0]), order.index(self.sides[1])) if set(self.sides) <= set(order) else None


def pairs(
    store: Store,
    project: str,
    base: str,
    head: str,
    *,
    machine: str | None = None,
    all_metrics: bool = False,
    since_ms: int | None = None,
    further_runs: bool = False,
) -> tuple[Pair, ...]:
    """Series of judged metrics (or all) with a record at either commit, by full hash; controls included.

    `since_ms`: only series with a record of a run started since then, when both commits were measured. `further_runs`:
    of each series without its first number at either commit, which raised the suspicion that the others test.
    """
    chosen = {
        number: indexed
        for number, indexed in series_index(store, project).items()
        if (all_metrics or indexed.series.metric.is_judged) and machine in {None, indexed.series.machine}
    }
    cached = project_points(store, project)
    with store.read() as connection:
        owner = project_id(connection, project)
        id_of = commit_ids(connection, owner, [base, head])
        if not {base, head} <= id_of.keys():
            return ()
        around = points_around(connection, owner, chosen.keys(), list(id_of.values()), HISTORY_COMMITS, cached)
        code_of = codes(connection, owner, around.commits)
    compared = (
        _pair(indexed.series, points, id_of[base], id_of[head], code_of.get(indexed.code, _NO_CODE), further_runs)
        for number, indexed in chosen.items()
        if (points := around.series.get(number)) is not None
        and (since_ms is None or any(row.started_ms is not None and row.started_ms >= since_ms for row in points.ends))
    )
    return tuple(compared if since_ms is None else (pair._replace(is_complete=True) for pair in compared))


def _pair(
    series: Series, points: SeriesPoints, base: int, head: int, code_of: Mapping[int, str], further_runs: bool
) -> Pair:
    sides = (_measured_as(points, base, code_of), _measured_as(points, head, code_of))
    rows = points.ends if sides == (base, head) else points.rows()
    numbers: list[_Rows] = [[row for row in rows if row.commit_id == side and row.value is not None] for side in sides]
    if further_runs:
        numbers = [side[1:] for side in numbers]
    is_exact = series.metric.is_exact
    gpu, other_gpus = (None, None) if is_exact else _common_gpu(*numbers)
    commits, levels = points.levels(other_gpus[1] if other_gpus else gpu)
    if gpu is not None:
        numbers = [[row for row in side if row.gpu == gpu] for side in numbers]
    same_session = not is_exact and other_gpus is None and bool(numbers[0] and numbers[1])
    if same_session:
        near = [_in_session_with(numbers[1], numbers[0]), _in_session_with(numbers[0], numbers[1])]
        same_session = all(near)
        numbers = near if same_session else numbers
    return Pair(
        series=series,
        base=_side([row for row in points.ends if row.commit_id == base], numbers[0]),
        head=_side([row for row in points.ends if row.commit_id == head], numbers[1]),
        levels=levels,
        commits=commits,
        sides=sides,
        is_one_measurement=sides[0] == sides[1] and base != head,
        other_gpus=other_gpus,
        same_session=same_session,
        reruns=() if is_exact else _reruns(points, sides, code_of),
        is_same_code=sides[0] in code_of and code_of[sides[0]] == code_of.get(sides[1]),
    )


def _in_session_with(others: _Rows, runs: _Rows) -> _Rows:
    """The runs within SESSION_GAP_MS of one of the others."""
    starts = [row.started_ms for row in others if row.started_ms is not None]
    return [
        row
        for row in runs
        if row.started_ms is not None and any(abs(row.started_ms - start) <= SESSION_GAP_MS for start in starts)
    ]


def _reruns(points: SeriesPoints, ends: Sequence[int], code_of: Mapping[int, str]) -> tuple[tuple[float, ...], ...]:
    """Values of re-runs, grouped: runs of equal code on one GPU in one session.

    Equal code is one commit, or commits of equal machine code. Base and head are never grouped with other commits: a
    difference of the code around equal machine code may be the change in question. Nor are commits of baselines and
    canaries, whose `code_of` is empty: drift of the machine would count as noise.
    """
    if not points.has_reruns and not code_of:
        return ()
    runs: dict[tuple[int | str, str | None], list[PointRow]] = {}
    for row in points.rows():
        if row.value is None or row.started_ms is None:
            continue
        code = row.commit_id if row.commit_id in ends else code_of.get(row.commit_id, row.commit_id)
        runs.setdefault((code, row.gpu), []).append(row)
    groups: list[tuple[float, ...]] = []
    for rows in runs.values():
        rows.sort(key=lambda row: (_started_ms(row), row.run_id))
        edges = [n for n in range(1, len(rows)) if _started_ms(rows[n]) - _started_ms(rows[n - 1]) > SESSION_GAP_MS]
        sessions = itertools.pairwise([0, *edges, len(rows)])
        groups.extend(tuple(_value(row) for row in rows[start:end]) for start, end in sessions if end - start > 1)
    return tuple(groups)


def _measured_as(points: SeriesPoints, commit: int, code_of: Mapping[int, str]) -> int:
    """The commit that represents this one: itself, or the nearest measured commit with the same machine code.

    Earlier commits are preferred: the code has not changed since.
    """
    if commit not in code_of:
        return commit
    own = [row for row in points.ends if row.commit_id == commit]
    if any(row.value is not None for row in own) or all(row.status != _UNCHANGED for row in own):
        return commit
    rows = points.rows()
    order = list(dict.fromkeys(row.commit_id for row in rows))
    same = {row.commit_id for row in rows if row.value is not None and code_of.get(row.commit_id) == code_of[commit]}
    index = order.index(commit)
    earlier = [each for each in order[:index] if each in same]
    later = [each for each in order[index:] if each in same]
    return earlier[-1] if earlier else later[0] if later else commit


def _common_gpu(base: _Rows, head: _Rows) -> tuple[str | None, tuple[str, str] | None]:
    """The GPU that measured both sides, with the most runs if several did; else the GPUs of base and head.

    Neither if a run has no GPU recorded.
    """
    if len(base) == len(head) == 1 and base[0].gpu == head[0].gpu:
        return base[0].gpu, None
    gpus = [{row.gpu for row in side} for side in (base, head)]
    if not all(gpus) or any(None in each for each in gpus):
        return None, None
    both = gpus[0] & gpus[1]
    if not both:
        return None, (str(base[-1].gpu), str(head[-1].gpu))
    if len(both) == 1:
        return both.pop(), None
    counts = [Counter(row.gpu for row in side) for side in (base, head)]
    return max(both, key=lambda gpu: (min(count[gpu] for count in counts), str(gpu))), None


def _side(at: _Rows, numbers: _Rows) -> Side:
    """The rows of a commit, and the numbers that represent it, which may be another commit's."""
    runs = tuple([RunValue(_value(row), row.q25, row.q75, row.sample_count) for row in numbers])
    if not at:
        return Side(runs, None, None)
    if any(row.value is not None for row in at):
        return Side(runs, Status.OK, None)
    return Side(runs, STATUS_OF_CODE[at[-1].status], at[-1].reason)


def _value(row: PointRow) -> float:
    assert row.value is not None
    return row.value


def _started_ms(row: PointRow) -> int:
    """The start of a row's run, which is recorded."""
    assert row.started_ms is not None
    return row.started_ms

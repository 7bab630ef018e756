"""Pairs of a comparison: the points of each series at and around two commits."""

import itertools
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import NamedTuple

import numpy as np
from sqlalchemy import Connection, select

from ...model.series import UNORDERED_POSITION, Series, Status
from ...statistics.comparison import RunValue
from .. import schema
from ..chunks import Floats, Ints
from ..commit_index import PointRow, calendar
from ..engine import Store
from ..mappers import project_id
from ..points import batches
from ..project_points import Flags, ProjectPoints, points_of_series, project_points, runs_of
from ..statements import STATUS_CODES, STATUS_OF_CODE
from .machine_code import codes
from .series_list import series_places

# The points of many series at and around two commits, taken at once: a record a point would be too slow for
# thousands.
#
# All series stand one after the other in the same columns; what is asked of each is a part of them.

_SERIES_AT_ONCE = 1000  # whose points are in memory as they were read, those of other commits among them


@dataclass(frozen=True, slots=True, eq=False)
class SeriesPoints:
    """One series' points, by commit, then by run; rows are made of those alone that somebody asks for."""

    series: int
    ends: Sequence[PointRow]  # those at the two commits
    has_reruns: bool  # a commit may have several numbers
    _all: ProjectPoints
    _its: slice  # of all points
    _wanted: Flags  # of all points
    _rows: list[PointRow] = field(default_factory=list)

    def rows(self) -> list[PointRow]:
        """All of them."""
        if not self._rows:
            at = self._its.start + np.flatnonzero(self._wanted[self._its])
            self._rows.extend(self._all.calendar.as_rows([self.series] * len(at), self._all.points.take(at)))
        return self._rows

    def levels(self, card: str | None) -> tuple[Ints, Floats]:
        """Each commit that has a number of the card (None: of any), in order, and the median of its numbers."""
        its = self._its
        at = self._wanted[its] & self._all.has_number[its]
        points, whole = self._all.points, self._all.calendar
        if card is not None:
            run = np.searchsorted(whole.runs, points.run[its])
            at &= whole.card[run] == whole.cards.index(card) + 1
        commit, value = points.commit[its][at], points.value[its][at]
        if not self.has_reruns:
            return commit, value
        groups = itertools.groupby(zip(commit.tolist(), value.tolist(), strict=True), key=lambda pair: pair[0])
        level_of = {number: median(each for _, each in group) for number, group in groups}
        return np.array([*level_of], dtype=np.int64), np.array([*level_of.values()], dtype=np.float64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Around:
    """The commits at and around two, and the series that have a point at one of the two."""

    commits: Sequence[int]
    series: Mapping[int, SeriesPoints]


def points_around(
    connection: Connection,
    project: int,
    ids: Collection[int],
    ends: Collection[int],
    reach: int,
    held: ProjectPoints | None,
) -> Around:
    """The points of these series at the `ends`, and of the `reach` commits before and after the newest of these.

    They are taken from those that are `held`; where none are they are read.
    """
    whole = held.calendar if held is not None else calendar(connection, project)
    is_end = np.isin(whole.commits, list(ends))
    placed = whole.position[is_end & (whole.position < UNORDERED_POSITION)]
    wanted = is_end | (np.abs(whole.position - placed.max(initial=0)) <= reach)
    commits = whole.commits[wanted].tolist()
    if held is not None:
        return Around(commits=commits, series=_around(held, ids, ends, commits))
    found: dict[int, SeriesPoints] = {}
    runs = runs_of(connection, commits)
    if runs is not None:
        for some in batches(list(ids), _SERIES_AT_ONCE):
            read = points_of_series(connection, whole, some, runs=runs)
            found |= _around(_only(read, commits), some, ends, commits)
    return Around(commits=commits, series=found)


def _only(read: ProjectPoints, commits: Collection[int]) -> ProjectPoints:
    """Of these commits alone, so that the rest need not stay in memory."""
    kept = np.flatnonzero(read.at(commits))
    ends = np.searchsorted(kept, read.starts)
    some = np.diff(ends) > 0
    return ProjectPoints(read.calendar, read.series[some], np.append(ends[:-1][some], ends[-1]), read.points.take(kept))


def _around(
    every: ProjectPoints, ids: Collection[int], ends: Collection[int], commits: Collection[int]
) -> dict[int, SeriesPoints]:
    """Of the given `commits`, for those of the series with a point at one of the `ends`."""
    at_ends = np.flatnonzero(every.at(ends))
    whose = np.searchsorted(every.starts, at_ends, side="right") - 1
    asked = np.isin(every.series, list(ids))[whose]
    at_ends, whose = at_ends[asked], whose[asked]
    wanted = every.at(commits)
    rows = every.calendar.as_rows(every.series[whose].tolist(), every.points.take(at_ends))
    places, starts = np.unique(whose, return_index=True)
    bounds = itertools.pairwise([*starts.tolist(), len(rows)])
    slices = map(slice, every.starts[places].tolist(), every.starts[places + 1].tolist())
    described = zip(every.series[places].tolist(), every.is_again[places].tolist(), slices, bounds, strict=True)
    return {
        number: SeriesPoints(number, rows[start:end], again, every, its, wanted)
        for number, again, its, (start, end) in described
    }


# Two commits side by side: what `check` compares.
#
# A commit that was not measured because its machine code stood still is measured by the commit that ran the same
# code. Runs of two physical cards are never compared, whatever their machine is called. Where runs of both were taken
# beside each other, as a gate does, only those are compared: what lies between two days is then in neither.

HISTORY_COMMITS = 100  # that the noise is taken from: those before the later of the two, and as many after
BESIDE_MS = 2 * 3600 * 1000  # between two runs of one sitting: three of each of two commits, a slow suite; and no night

_UNCHANGED = STATUS_CODES[Status.UNCHANGED]
_NO_CODE: Mapping[int, str] = {}
_Rows = Sequence[PointRow]


class Side(NamedTuple):
    """What a series has at one commit: runs with a number, and the newest status and reason where that has none."""

    runs: tuple[RunValue, ...]
    status: Status | None  # None: no record
    reason: str | None


class Pair(NamedTuple):
    """One series at two commits, with the levels of the commits around them, in order, all of one card."""

    series: Series
    base: Side
    head: Side
    levels: Floats
    commits: Ints  # of the levels
    sides: tuple[int, int]  # the commits that were measured for base and head
    is_one_measurement: bool  # both commits run the same machine code, and only one of them was measured
    other_cards: tuple[str, str] | None  # the cards of base and head, where no card measured both
    beside: bool  # every run of base was taken within BESIDE_MS of one of head, on one card, and the other way round
    reruns: tuple[tuple[float, ...], ...]  # values of equal code on one card in one sitting, around the two commits
    is_same_code: bool = False  # both were measured, and ran the same machine code
    is_complete: bool = False  # both commits were to be measured: what has no record at one is gone there

    @property
    def span(self) -> tuple[int, int] | None:
        """The places of base and head among the levels; None if either has no number there."""
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
) -> tuple[Pair, ...]:
    """Series of judged metrics (or all) with a record at either commit, given by full hash; controls among them.

    With `since_ms`, only those with a record there of a run that started since then, which measured both commits.
    """
    found = {
        number: place
        for number, place in series_places(store, project).items()
        if (all_metrics or place.series.metric.is_judged) and machine in {None, place.series.machine}
    }
    held = project_points(store, project)
    with store.read() as connection:
        owner = project_id(connection, project)
        ends = connection.execute(
            select(schema.commit.c.hash, schema.commit.c.id).where(
                schema.commit.c.project_id == owner, schema.commit.c.hash.in_([base, head])
            )
        ).all()
        id_of = {row.hash: row.id for row in ends}
        if owner is None or not {base, head} <= id_of.keys():
            return ()
        around = points_around(connection, owner, found.keys(), list(id_of.values()), HISTORY_COMMITS, held)
        code_of = codes(connection, owner, around.commits)
    made = (
        _pair(place.series, points, id_of[base], id_of[head], code_of.get(place.code, _NO_CODE))
        for number, place in found.items()
        if (points := around.series.get(number)) is not None and _has_run_since(points, since_ms)
    )
    return tuple(made if since_ms is None else (pair._replace(is_complete=True) for pair in made))


def _has_run_since(points: SeriesPoints, since_ms: int | None) -> bool:
    return since_ms is None or any(row.started_ms is not None and row.started_ms >= since_ms for row in points.ends)


def _pair(series: Series, points: SeriesPoints, base: int, head: int, code_of: Mapping[int, str]) -> Pair:
    sides = (_measured_as(points, base, code_of), _measured_as(points, head, code_of))
    rows = points.ends if sides == (base, head) else points.rows()
    numbers: list[_Rows] = [[row for row in rows if row.commit_id == side and row.value is not None] for side in sides]
    is_exact = series.metric.is_exact
    card, other_cards = (None, None) if is_exact else _common_card(*numbers)
    commits, levels = points.levels(other_cards[1] if other_cards else card)
    if card is not None:
        numbers = [[row for row in side if row.card == card] for side in numbers]
    is_beside = not is_exact and other_cards is None and bool(numbers[0] and numbers[1])
    if is_beside:
        beside = [_beside(numbers[0], numbers[1]), _beside(numbers[1], numbers[0])]
        is_beside = all(beside)
        numbers = beside if is_beside else numbers
    return Pair(
        series=series,
        base=_side([row for row in points.ends if row.commit_id == base], numbers[0]),
        head=_side([row for row in points.ends if row.commit_id == head], numbers[1]),
        levels=levels,
        commits=commits,
        sides=sides,
        is_one_measurement=sides[0] == sides[1] and base != head,
        other_cards=other_cards,
        beside=is_beside,
        reruns=() if is_exact else _reruns(points, sides, code_of),
        is_same_code=sides[0] in code_of and code_of[sides[0]] == code_of.get(sides[1]),
    )


def _beside(runs: _Rows, others: _Rows) -> _Rows:
    """Those of the runs that have one of the others beside them."""
    at = [row.started_ms for row in others if row.started_ms is not None]
    return [
        row
        for row in runs
        if row.started_ms is not None and any(abs(row.started_ms - moment) <= BESIDE_MS for moment in at)
    ]


def _reruns(points: SeriesPoints, ends: Sequence[int], code_of: Mapping[int, str]) -> tuple[tuple[float, ...], ...]:
    """The values of runs of the same thing that lie beside each other on one card.

    The same thing is a commit, or commits of equal machine code. Base and head stand alone: what runs around equal
    code may be the change that is asked about. So do the commits of rivals and canaries, whose way over commits is
    their history's to tell: a machine that slows down would be noise here.
    """
    if not points.has_reruns and not code_of:
        return ()
    runs: dict[tuple[int | str, str | None], list[PointRow]] = {}
    for row in points.rows():
        if row.value is None or row.started_ms is None:
            continue
        code = row.commit_id if row.commit_id in ends else code_of.get(row.commit_id, row.commit_id)
        runs.setdefault((code, row.card), []).append(row)
    groups: list[tuple[float, ...]] = []
    for found in runs.values():
        found.sort(key=lambda row: (_started_ms(row), row.run_id))
        edges = [n for n in range(1, len(found)) if _started_ms(found[n]) - _started_ms(found[n - 1]) > BESIDE_MS]
        parts = itertools.pairwise([0, *edges, len(found)])
        groups.extend(tuple(_value(row) for row in found[start:end]) for start, end in parts if end - start > 1)
    return tuple(groups)


def _measured_as(points: SeriesPoints, commit: int, code_of: Mapping[int, str]) -> int:
    """The commit whose numbers stand for this one: itself, or the nearest measured one with the same machine code.

    Earlier ones go first, as the code stands still since then.
    """
    if commit not in code_of:
        return commit
    here = [row for row in points.ends if row.commit_id == commit]
    if any(row.value is not None for row in here) or all(row.status != _UNCHANGED for row in here):
        return commit
    rows = points.rows()
    order = list(dict.fromkeys(row.commit_id for row in rows))
    same = {row.commit_id for row in rows if row.value is not None and code_of.get(row.commit_id) == code_of[commit]}
    place = order.index(commit)
    earlier = [each for each in order[:place] if each in same]
    later = [each for each in order[place:] if each in same]
    return earlier[-1] if earlier else later[0] if later else commit


def _common_card(base: _Rows, head: _Rows) -> tuple[str | None, tuple[str, str] | None]:
    """The card that measured both sides, the one with most runs of several; else the cards of both.

    Runs that tell no card may be of any: then there is neither.
    """
    if len(base) == len(head) == 1 and base[0].card == head[0].card:
        return base[0].card, None
    cards = [{row.card for row in side} for side in (base, head)]
    if not all(cards) or any(None in each for each in cards):
        return None, None
    both = cards[0] & cards[1]
    if not both:
        return None, (str(base[-1].card), str(head[-1].card))
    if len(both) == 1:
        return both.pop(), None
    counts = [Counter(row.card for row in side) for side in (base, head)]
    return max(both, key=lambda card: (min(count[card] for count in counts), str(card))), None


def _side(at: _Rows, numbers: _Rows) -> Side:
    """What stands at a commit, and the numbers that count for it, which may be another's."""
    runs = tuple([RunValue(_value(row), row.q25, row.q75, row.sample_count) for row in numbers])
    if not at:
        return Side(runs, None, None)
    if any(row.value is not None for row in at):
        return Side(runs, Status.OK, None)
    return Side(runs, STATUS_OF_CODE[at[-1].status], at[-1].reason)


def _value(row: PointRow) -> float:
    """Of a row that has a number."""
    assert row.value is not None
    return row.value


def _started_ms(row: PointRow) -> int:
    """Of a row whose run says when it was."""
    assert row.started_ms is not None
    return row.started_ms

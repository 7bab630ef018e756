"""Two commits side by side: what `check` compares.

A commit that was not measured because its machine code stood still is measured by the commit that ran the same code.
Runs of two physical cards are never compared, whatever their machine is called. Where runs of both were taken beside
each other, as a gate does, only those are compared: what lies between two days is then in neither.
"""

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import select

from warpwatch.dashboard.statistics.comparison import RunValue
from warpwatch.dashboard.store import tables
from warpwatch.dashboard.store.calendar import PointRow
from warpwatch.dashboard.store.columns import Floats, Ints
from warpwatch.dashboard.store.project_points import project_points
from warpwatch.dashboard.store.queries.around import SeriesPoints, points_around
from warpwatch.dashboard.store.queries.codes import codes
from warpwatch.dashboard.store.queries.series_places import series_places
from warpwatch.dashboard.store.reading import project_id
from warpwatch.dashboard.store.records import Series, Status
from warpwatch.dashboard.store.rows import STATUS_CODES, STATUS_OF_CODE
from warpwatch.dashboard.store.store import Store

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
    is_complete: bool = False  # both commits were to be measured: what has no record at one is gone there

    @property
    def span(self) -> tuple[int, int] | None:
        """The places of base and head among the levels; None if either has no number there."""
        order = self.commits.tolist()
        return (order.index(self.sides[0]), order.index(self.sides[1])) if set(self.sides) <= set(order) else None


def pairs(
    store: Store, project: str, base: str, head: str, *, machine: str | None = None, all_metrics: bool = False,
    since_ms: int | None = None,
) -> tuple[Pair, ...]:  # fmt: skip
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
            select(tables.commit.c.hash, tables.commit.c.id).where(
                tables.commit.c.project_id == owner, tables.commit.c.hash.in_([base, head])
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

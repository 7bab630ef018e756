"""The history of a series in columns, where one card ran each commit once: most of the series there are.

A record for each of millions of values would take longer than all that is asked of them.
"""

from dataclasses import dataclass

import numpy as np

from warpwatch.dashboard.statistics.comparison import RunValue
from warpwatch.dashboard.statistics.summary import CommitValues
from warpwatch.dashboard.store.calendar import Calendar
from warpwatch.dashboard.store.columns import Columns, Ints
from warpwatch.dashboard.store.packed import number_or_none
from warpwatch.dashboard.store.records import Status
from warpwatch.dashboard.store.rows import STATUS_CODES

_OK, _UNAVAILABLE, _UNCHANGED = (
    STATUS_CODES[status] for status in (Status.OK, Status.UNAVAILABLE, Status.UNCHANGED)
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlainHistory:
    """A point for each commit, in the project's order."""

    points: Columns
    date_ms: Ints  # of the commits
    card: str | None
    numbers: Ints  # places of the points that have a number

    def levels(self) -> list[float]:
        """The numbers."""
        return self.points.value[self.numbers].tolist()

    def at(self, places: Ints) -> list[CommitValues]:
        """The commits at these places, as records."""
        points = self.points.take(places)
        columns = (points.commit, self.date_ms[places], points.value, points.q25, points.q75, points.count)
        is_number = np.isin(places, self.numbers).tolist()
        return [
            CommitValues(
                commit_id=commit,
                date_ms=date_ms,
                runs=(
                    RunValue(
                        value=value, q25=number_or_none(q25), q75=number_or_none(q75),
                        sample_count=count if count >= 0 else None, card=self.card,
                    ),
                ) if number else (),
                failed=not number and status != _UNAVAILABLE,
            )
            for commit, date_ms, value, q25, q75, count, status, number in zip(
                *(column.tolist() for column in columns), points.status.tolist(), is_number, strict=True
            )
        ]  # fmt: skip


def plain_history(points: Columns, calendar: Calendar) -> PlainHistory | None:
    """The history, if it is plain."""
    if (points.status == _UNCHANGED).any():
        return None
    run = np.searchsorted(calendar.runs, points.run)
    card = calendar.card[run]
    if (card != card[0]).any():
        return None
    commit = np.searchsorted(calendar.commits, points.commit)
    place = calendar.position[commit]
    if (np.diff(place) <= 0).any():  # not written in the commits' order, or one of them twice
        order = np.lexsort((calendar.date_ms[commit], place))
        points, commit = points.take(order), commit[order]
        if (np.diff(points.commit) == 0).any():
            return None
    number = int(card[0])
    return PlainHistory(
        points=points,
        date_ms=calendar.date_ms[commit],
        card=calendar.cards[number - 1] if number else None,
        numbers=np.flatnonzero((points.status == _OK) & ~np.isnan(points.value)),
    )

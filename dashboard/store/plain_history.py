"""The history of a series in columns, where one card ran each commit once: most of the series there are.

A record for each of millions of values would take longer than all that is asked of them.
"""

from dataclasses import dataclass

import numpy as np

from warpwatch.dashboard.metrics import Metric
from warpwatch.dashboard.statistics.changepoint import Changepoint
from warpwatch.dashboard.statistics.summary import (
    SPARKLINE_COMMITS,
    Reference,
    Summary,
    moved_since,
    since_ms,
    summary,
)
from warpwatch.dashboard.store.calendar import Calendar
from warpwatch.dashboard.store.columns import Columns, Ints
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

    def sparkline(self) -> list[float | None]:
        """The newest commits' values, None where there is no number."""
        first = max(len(self.points) - SPARKLINE_COMMITS, 0)
        found: list[float | None] = [None] * (len(self.points) - first)
        for place in self.numbers[np.searchsorted(self.numbers, first) :].tolist():
            found[place - first] = float(self.points.value[place])
        return found


def plain_summary(history: PlainHistory, last: Changepoint | None, metric: Metric) -> Summary:
    """What `summarise` tells of the history; `last` is its last change."""
    numbers, date_ms = history.numbers, history.date_ms
    sparkline = history.sparkline()
    since = since_ms(int(date_ms[-1]))
    against = None
    if last is not None and date_ms[numbers[last.index]] >= since:
        against = Reference(
            change=last.magnitude, commit_id=int(history.points.commit[numbers[last.index]]), is_step=True
        )
    elif sparkline[-1] is not None:
        older = numbers[date_ms[numbers] <= since]
        if len(older):
            before = float(history.points.value[older[-1]])
            against = moved_since(sparkline[-1], before, int(history.points.commit[older[-1]]))
    return summary(
        sparkline=sparkline, against=against, metric=metric, numbers=len(numbers),
        newest_failed=history.points.status[-1] != _UNAVAILABLE,
    )  # fmt: skip


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

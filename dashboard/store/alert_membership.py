"""The alert that a changepoint belongs to: one rule for the alert daemon, the regressions page and triage."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, select

from ..model.alert import SAME_PLACE
from ..model.changepoint import SeriesChange
from . import schema
from .statements import is_one_of


class AlertMembership:
    """The series of a project's alerts, and which alert a changepoint of one of them belongs to.

    A changepoint of an alerted series is the same regression if it is within SAME_PLACE commits with a number of the
    alerted one, or at the same commit, or in the alert's range of suspects, now or when it was opened: commits measured
    later narrow the range, and a run with outliers may narrow it too far.
    """

    def __init__(self, connection: Connection, project: int) -> None:
        part, alert, own = schema.alert_series, schema.alert, schema.commit
        first, good = own.alias(), own.alias()
        rows = connection.execute(
            select(
                schema.series.c.key,
                part.c.alert_id,
                part.c.place,
                own.c.hash,
                own.c.position,
                alert.c.notified,
                first.c.position.label("first_bad"),
                good.c.position.label("last_good"),
            )
            .join(schema.series, schema.series.c.id == part.c.series_id)
            .join(own, own.c.id == part.c.commit_id)
            .join(alert, alert.c.id == part.c.alert_id)
            .join(first, first.c.id == alert.c.commit_id)
            .join(good, good.c.id == alert.c.previous_commit_id)
            .where(alert.c.project_id == project)
        ).all()
        self._first_ranges = _first_ranges(connection, project, rows)
        self._alerted: dict[str, list[Any]] = {}
        for row in rows:
            self._alerted.setdefault(row.key, []).append(row)

    def alert_of_change(self, series: str, change: SeriesChange) -> int | None:
        """The id of the alert of a change, by series key; None without an alert."""
        return self.alert_of(series, change.commit.hash, change.commit.position, change.index)

    def alert_of(self, series: str, commit: str, position: int, place: int) -> int | None:
        """The same by hash and position of the change's commit, and its index among commits with a number."""
        same = [row for row in self._alerted.get(series, ()) if self._is_same(row, commit, position, place)]
        return min((abs(place - row.place), row.alert_id) for row in same)[1] if same else None

    def _is_same(self, row: Any, commit: str, position: int, place: int) -> bool:
        if abs(place - row.place) <= SAME_PLACE or commit == row.hash:
            return True
        opened = self._first_ranges.get(row.alert_id)
        if opened is not None and opened[0] < position <= opened[1]:
            return True
        if None in (row.position, row.first_bad, row.last_good):
            return False
        return bool(row.last_good < position <= max(row.first_bad, row.position))


def _first_ranges(connection: Connection, project: int, rows: Sequence[Any]) -> dict[int, tuple[int, int]]:
    """Positions of the last good and the first bad commit of the first message, of alerts that sent one."""
    ranges = {row.alert_id: tuple(row.notified["first_range"]) for row in rows if row.notified}
    table = schema.commit
    names = {name for ends in ranges.values() for name in ends}
    positions = {
        row.hash: row.position
        for row in connection.execute(
            select(table.c.hash, table.c.position).where(
                table.c.project_id == project, is_one_of(connection, table.c.hash, names)
            )
        )
    }
    known = {number: tuple(positions.get(name) for name in ends) for number, ends in ranges.items()}
    return {number: (start, end) for number, (start, end) in known.items() if start is not None and end is not None}

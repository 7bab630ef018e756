"""Where people say that a series' changes came, beside what the detector told."""

from dataclasses import dataclass

from sqlalchemy import select

from warpwatch.dashboard.store import tables
from warpwatch.dashboard.store.alert_records import StatedChange
from warpwatch.dashboard.store.reading import commits_by_id, moment
from warpwatch.dashboard.store.records import Commit
from warpwatch.dashboard.store.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedOfSeries:
    """A person's word on one changepoint of a series."""

    detected: Commit  # as the detector had it when the alert opened
    stated: StatedChange
    alert: int


def stated_changes(store: Store, key: str) -> tuple[StatedOfSeries, ...]:
    """Those of the series of this key, in the order in which they were stated."""
    part, said = tables.alert_series, tables.stated_change
    with store.read() as connection:
        rows = connection.execute(
            select(said, part.c.commit_id.label("detected_id"))
            .join(part, part.c.alert_id == said.c.alert_id)
            .join(tables.series, tables.series.c.id == part.c.series_id)
            .where(tables.series.c.key == key)
            .order_by(said.c.stated_ms, said.c.alert_id)
        ).all()
        ids = (number for row in rows for number in (row.commit_id, row.previous_commit_id, row.detected_id))
        its = commits_by_id(connection, ids)
    found = []
    for row in rows:
        at = moment(row.stated_ms)
        assert at is not None
        stated = StatedChange(
            commit=its[row.commit_id], previous_commit=its[row.previous_commit_id], author=row.author, at=at
        )
        found.append(StatedOfSeries(detected=its[row.detected_id], stated=stated, alert=row.alert_id))
    return tuple(found)

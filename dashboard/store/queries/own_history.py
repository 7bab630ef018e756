"""A series' own points and findings, without what stands beside it on its page."""

from collections.abc import Sequence
from dataclasses import dataclass

from warpwatch.dashboard.store import tables
from warpwatch.dashboard.store.queries.series import points_of
from warpwatch.dashboard.store.reading import changes_of, episodes_of, select_series, series_record, workloads
from warpwatch.dashboard.store.records import Point, Series, SeriesChange
from warpwatch.dashboard.store.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnHistory:
    """A series with its points by commit, then run time, and what was found in them."""

    series: Series
    points: Sequence[Point]
    changes: tuple[SeriesChange, ...]
    episodes: tuple[SeriesChange, ...]


def own_history(store: Store, key: str) -> OwnHistory | None:
    """The history of the series of that key."""
    with store.read() as connection:
        row = connection.execute(select_series().where(tables.series.c.key == key)).one_or_none()
        if row is None:
            return None
        return OwnHistory(
            series=series_record(row, workloads(connection, row.project_id)),
            points=points_of(connection, [row.id]).get(row.id, ()),
            changes=changes_of(connection, [row.id]).get(row.id, ()),
            episodes=episodes_of(connection, [row.id]).get(row.id, ()),
        )

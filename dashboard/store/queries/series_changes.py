"""The changepoints of some series, by their keys."""

from collections.abc import Collection

from sqlalchemy import Connection, select

from warpwatch.dashboard.store import tables
from warpwatch.dashboard.store.points import batches
from warpwatch.dashboard.store.reading import changes_of
from warpwatch.dashboard.store.records import SeriesChange
from warpwatch.dashboard.store.store import Store

_AT_ONCE = 500


def series_changes(store: Store, keys: Collection[str]) -> dict[str, tuple[SeriesChange, ...]]:
    """Those of each series that has any, in order; of every kind, for the worse or the better."""
    with store.read() as connection:
        return series_changes_in(connection, keys)


def series_changes_in(connection: Connection, keys: Collection[str]) -> dict[str, tuple[SeriesChange, ...]]:
    """As `series_changes`, as this transaction sees them."""
    table = tables.series
    found: dict[str, tuple[SeriesChange, ...]] = {}
    for some in batches(sorted(keys), _AT_ONCE):
        names = {
            row.id: row.key
            for row in connection.execute(select(table.c.id, table.c.key).where(table.c.key.in_(some)))
        }  # fmt: skip
        found |= {names[number]: its for number, its in changes_of(connection, list(names)).items()}
    return found

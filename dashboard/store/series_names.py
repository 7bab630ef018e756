"""What series are called, where only their ids are at hand."""

from collections.abc import Collection, Mapping

from warpwatch.dashboard.store import tables
from warpwatch.dashboard.store.choosing import is_among
from warpwatch.dashboard.store.reading import Workloads, select_series, series_record
from warpwatch.dashboard.store.store import Store


def series_names(store: Store, ids: Collection[int]) -> Mapping[int, str]:
    """Of each id that there is: project, benchmark with its parameters, machine and environment."""
    number = tables.series.c.id
    with store.read() as connection:
        rows = connection.execute(select_series(number).where(is_among(connection, number, ids))).all()
    records = {row.id: series_record(row, Workloads()) for row in rows}
    return {
        number: f"{one.project}: {one.title} on {one.machine}, {one.environment}" for number, one in records.items()
    }

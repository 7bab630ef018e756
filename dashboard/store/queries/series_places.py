"""Every series of a project with where its code runs, read once: comparisons ask for all of them."""

from collections.abc import Mapping
from typing import NamedTuple

from warpwatch.dashboard.store import tables
from warpwatch.dashboard.store.cache import ROW_BYTES
from warpwatch.dashboard.store.queries.codes import CodePlace
from warpwatch.dashboard.store.reading import project_id, select_series, series_record, workloads
from warpwatch.dashboard.store.records import Series
from warpwatch.dashboard.store.store import Store


class SeriesPlace(NamedTuple):
    """A series, and what its machine code belongs to."""

    series: Series
    code: CodePlace


def series_places(store: Store, project: str) -> Mapping[int, SeriesPlace]:
    """By id, in the order of machines and benchmarks."""

    def read() -> Mapping[int, SeriesPlace]:
        with store.read() as connection:
            owner = project_id(connection, project)
            if owner is None:
                return {}
            rows = connection.execute(select_series().where(tables.series.c.project_id == owner)).all()
            known = workloads(connection, owner)
        rows = sorted(rows, key=lambda row: (row.machine_name, row.benchmark_name, row.id))
        return {
            row.id: SeriesPlace(
                series_record(row, known),
                CodePlace(row.machine_id, row.environment_id, row.benchmark_name.rpartition(".")[0], row.workload or "",
                          row.implementation or ""),
            )
            for row in rows
        }  # fmt: skip

    return store.cached(project, "series and their places", read, size=lambda places: ROW_BYTES * len(places))

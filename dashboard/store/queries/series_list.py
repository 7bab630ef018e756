"""Lists of series: filtered, and the index of all series."""

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from sqlalchemy import Text, cast, func, or_, select

from ...model.history import SeriesPage
from ...model.metric import Metric
from ...model.metric import metric as metric_of
from ...model.series import Series
from .. import schema
from ..cache import ROW_BYTES
from ..engine import Store
from ..mappers import project_id, select_series, series_record, workloads
from .machine_code import CodeKey


def find_series(
    store: Store,
    project: str,
    *,
    search: str = "",
    machine: str | None = None,
    metric: str | None = None,
    implementation: str | None = None,
    listed: bool | None = None,
    first: Collection[str] = (),
    limit: int = 50,
    offset: int = 0,
) -> SeriesPage:
    """Series whose benchmark, parameters, machine or environment contain every word of `search`, ignoring case.

    Listed ones first, then the metrics in `first`, then by benchmark.
    """
    series = schema.series
    with store.read() as connection:
        owner = project_id(connection, project)
        if owner is None:
            return SeriesPage(total=0, series=())
        where: list[Any] = [series.c.project_id == owner]
        for column, value in (
            (schema.machine.c.name, machine),
            (series.c.metric, metric),
            (series.c.implementation, implementation),
            (series.c.listed, listed),
        ):
            if value is not None:
                where.append(column == value)
        for word in search.split():
            fields = (
                schema.benchmark.c.name,
                cast(series.c.parameters, Text),
                schema.machine.c.name,
                schema.environment.c.name,
            )
            where.append(or_(*(field.icontains(word, autoescape=True) for field in fields)))
        total = connection.execute(select(func.count()).select_from(select_series().where(*where).subquery())).scalar()
        rows = connection.execute(
            select_series(schema.summary.c.value)
            .outerjoin(schema.summary, schema.summary.c.series_id == series.c.id)
            .where(*where)
            .order_by(series.c.listed.desc(), series.c.metric.in_(first).desc(), schema.benchmark.c.name, series.c.id)
            .limit(limit)
            .offset(offset)
        ).all()
        known = workloads(connection, owner)
    return SeriesPage(
        total=int(total or 0),
        series=tuple(series_record(row, known) for row in rows),
        latest={row.key: row.value for row in rows},
    )


def metrics_and_implementations(store: Store, project: str) -> tuple[tuple[Metric, ...], tuple[str, ...]]:
    """The metrics, one for each name, and implementations of a project's series, for filters."""
    series = schema.series
    with store.read() as connection:
        rows = connection.execute(
            select(series.c.metric, func.min(series.c.unit).label("unit"), series.c.implementation)
            .where(series.c.project_id == project_id(connection, project))
            .group_by(series.c.metric, series.c.implementation)
        ).all()
    metrics = {row.metric: metric_of(row.metric, row.unit) for row in rows}
    return tuple(metrics.values()), tuple({row.implementation for row in rows if row.implementation})


class IndexedSeries(NamedTuple):
    """A series, and the key of its machine code."""

    series: Series
    code: CodeKey


def series_index(store: Store, project: str) -> Mapping[int, IndexedSeries]:
    """All series of a project by id, sorted by machine and benchmark; cached for comparisons."""

    def read() -> Mapping[int, IndexedSeries]:
        with store.read() as connection:
            owner = project_id(connection, project)
            if owner is None:
                return {}
            rows = connection.execute(select_series().where(schema.series.c.project_id == owner)).all()
            known = workloads(connection, owner)
        rows = sorted(rows, key=lambda row: (row.machine_name, row.benchmark_name, row.id))
        return {
            row.id: IndexedSeries(
                series_record(row, known),
                CodeKey(
                    row.machine_id,
                    row.environment_id,
                    row.benchmark_name.rpartition(".")[0],
                    row.workload or "",
                    row.implementation or "",
                ),
            )
            for row in rows
        }

    return store.cached(project, "series index", read, size=lambda index: ROW_BYTES * len(index))

"""The series of a project, narrowed by words and by exact names, a part at a time."""

from collections.abc import Collection
from typing import Any

from sqlalchemy import Text, cast, func, or_, select

from warpwatch.dashboard.metrics import Metric
from warpwatch.dashboard.metrics import metric as metric_of
from warpwatch.dashboard.store import tables
from warpwatch.dashboard.store.reading import project_id, select_series, series_record, workloads
from warpwatch.dashboard.store.records import SeriesPage
from warpwatch.dashboard.store.store import Store


def find_series(
    store: Store, project: str, *, search: str = "", machine: str | None = None, metric: str | None = None,
    implementation: str | None = None, listed: bool | None = None, first: Collection[str] = (), limit: int = 50,
    offset: int = 0,
) -> SeriesPage:  # fmt: skip
    """Series whose benchmark, parameters, machine or environment hold every word of `search`, letter case aside.

    Listed ones first, of these the metrics named in `first`, then by benchmark.
    """
    series = tables.series
    with store.read() as connection:
        owner = project_id(connection, project)
        if owner is None:
            return SeriesPage(total=0, series=())
        where: list[Any] = [series.c.project_id == owner]
        for column, wanted in ((tables.machine.c.name, machine), (series.c.metric, metric),
                               (series.c.implementation, implementation), (series.c.listed, listed)):  # fmt: skip
            if wanted is not None:
                where.append(column == wanted)
        for word in search.split():
            fields = (tables.benchmark.c.name, cast(series.c.parameters, Text), tables.machine.c.name,
                      tables.environment.c.name)  # fmt: skip
            where.append(or_(*(field.icontains(word, autoescape=True) for field in fields)))
        total = connection.execute(select(func.count()).select_from(select_series().where(*where).subquery())).scalar()
        rows = connection.execute(
            select_series(tables.summary.c.value)
            .outerjoin(tables.summary, tables.summary.c.series_id == series.c.id)
            .where(*where)
            .order_by(series.c.listed.desc(), series.c.metric.in_(first).desc(), tables.benchmark.c.name, series.c.id)
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
    """What series of a project measure, a metric for each name, and whose: what a list of them is narrowed by."""
    series = tables.series
    with store.read() as connection:
        rows = connection.execute(
            select(series.c.metric, func.min(series.c.unit).label("unit"), series.c.implementation)
            .where(series.c.project_id == project_id(connection, project))
            .group_by(series.c.metric, series.c.implementation)
        ).all()
    found = {row.metric: metric_of(row.metric, row.unit) for row in rows}
    return tuple(found.values()), tuple({row.implementation for row in rows if row.implementation})

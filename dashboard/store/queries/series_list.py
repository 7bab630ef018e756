"""Lists of series: filtered, and the index of all series."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Row, func, or_, select

from ...model.history import SeriesPage
from ...model.metric import Metric
from ...model.metric import metric as metric_of
from ...model.series import Series, Status, Workload, workload_of
from ...model.series_query import SeriesQuery, text_of
from .. import schema
from ..cache import ROW_BYTES
from ..engine import Store
from ..mappers import Workloads, project_id, select_series, series_record, workloads
from ..statements import STATUS_CODES, id_in
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
    """Series that match a query (`model/series_query.py`) and the filters.

    Listed ones first, then the metrics in `first`, then by benchmark.
    """
    found = [
        pair
        for pair in _matching(SeriesQuery.parse(search), _in_order(store, project, tuple(first)))
        if (machine is None or machine == pair[1].series.machine)
        and (metric is None or metric == pair[1].series.metric.name)
        and (implementation is None or implementation == pair[1].series.implementation)
        and (listed is None or listed is pair[1].series.listed)
    ]
    page = {series_id: entry.series for series_id, entry in found[offset : offset + limit]}
    return SeriesPage(total=len(found), series=tuple(page.values()), latest=_latest_values(store, page))


def matching(store: Store, project: str, search: str, series: Iterable[Series]) -> frozenset[str]:
    """Keys of the series that match a query."""
    query, known = SeriesQuery.parse(search), project_workloads(store, project)
    return frozenset(each.key for each in series if query.matches(each, workload_of(each, known)))


def matching_ids(store: Store, project: str, search: str) -> frozenset[int]:
    """Ids of a project's series that match a query."""
    entries = _matching(SeriesQuery.parse(search), series_index(store, project).items())
    return frozenset(series_id for series_id, _ in entries)


def matching_keys(store: Store, project: str, search: str) -> frozenset[str]:
    """As `matching_ids`, their keys."""
    index = series_index(store, project)
    return frozenset(index[series_id].series.key for series_id in matching_ids(store, project, search))


def _in_order(store: Store, project: str, first: tuple[str, ...]) -> Sequence[tuple[int, "IndexedSeries"]]:
    """The series that lists show, in their order."""

    def read() -> Sequence[tuple[int, IndexedSeries]]:
        measured = {None, *metrics_and_implementations(store, project)[1]}
        found = [pair for pair in series_index(store, project).items() if pair[1].series.implementation in measured]
        found.sort(
            key=lambda pair: (
                not pair[1].series.listed,
                pair[1].series.metric.name not in first,
                pair[1].series.benchmark,
                pair[0],
            )
        )
        return found

    return store.cached(project, ("series in order", first), read, size=lambda found: ROW_BYTES * len(found))


def _matching(
    query: SeriesQuery, entries: Iterable[tuple[int, "IndexedSeries"]]
) -> Iterable[tuple[int, "IndexedSeries"]]:
    """The entries of the index that match, in their order: first by words, which are compared faster.

    Lazily: thousands of new tuples in each request would make Python's garbage collector stop all threads.
    """
    for word in query.words:
        entries = _with_word(word, entries)
    if query.conditions:
        return (pair for pair in entries if query.matches(pair[1].series, pair[1].workload, pair[1].text))
    return entries


def _with_word(word: str, entries: Iterable[tuple[int, "IndexedSeries"]]) -> Iterable[tuple[int, "IndexedSeries"]]:
    return (pair for pair in entries if word in pair[1].text)


def _latest_values(store: Store, series: Mapping[int, Series]) -> Mapping[str, float | None]:
    """The newest value of each series, by key."""
    summary = schema.summary
    with store.read() as connection:
        is_chosen = id_in(connection, summary.c.series_id, series)
        rows = connection.execute(select(summary.c.series_id, summary.c.value).where(is_chosen)).all()
    values = {row.series_id: row.value for row in rows}
    return {each.key: values.get(series_id) for series_id, each in series.items()}


def project_workloads(store: Store, project: str) -> Mapping[tuple[str, str], Workload]:
    """All workloads from context files, by suite and name."""

    def read() -> Mapping[tuple[str, str], Workload]:
        with store.read() as connection:
            return workloads(connection, project_id(connection, project))

    return store.cached(project, "workloads", read)


def metrics_and_implementations(store: Store, project: str) -> tuple[tuple[Metric, ...], tuple[str, ...]]:
    """The metrics, one for each name, and implementations of a project's series, for filters."""
    series = schema.series

    def read() -> tuple[tuple[Metric, ...], tuple[str, ...]]:
        with store.read() as connection:
            owner = project_id(connection, project)
            rows = connection.execute(
                select(series.c.metric, func.min(series.c.unit).label("unit"), series.c.implementation)
                .where(series.c.project_id == owner, is_measured_somewhere(connection, owner))
                .group_by(series.c.metric, series.c.implementation)
            ).all()
        metrics = {row.metric: metric_of(row.metric, row.unit) for row in rows}
        return tuple(metrics.values()), tuple({row.implementation for row in rows if row.implementation})

    return store.cached(project, "metrics and implementations", read)


class IndexedSeries(NamedTuple):
    """A series, the key of its machine code, its workload, and the text that words of a query are searched in."""

    series: Series
    code: CodeKey
    workload: Workload | None
    text: str


def latency_series(store: Store, project: str) -> tuple[Series, ...]:
    def read() -> tuple[Series, ...]:
        with store.read() as connection:
            owner = project_id(connection, project)
            where = (schema.series.c.project_id == owner, schema.series.c.metric == "latency")
            known = workloads(connection, owner)
            return tuple(series_record(row, known) for row in connection.execute(select_series().where(*where)).all())

    return store.cached(project, "latency series", read, size=lambda series: ROW_BYTES * len(series))


def series_index(store: Store, project: str) -> Mapping[int, IndexedSeries]:
    """All series of a project by id, sorted by machine and benchmark; cached for comparisons."""

    def read() -> Mapping[int, IndexedSeries]:
        with store.read() as connection:
            owner = project_id(connection, project)
            rows = connection.execute(select_series().where(schema.series.c.project_id == owner)).all()
            known = workloads(connection, owner)
        rows = sorted(rows, key=lambda row: (row.machine_name, row.benchmark_name, row.id))
        return {row.id: indexed_series(row, known) for row in rows}

    return store.cached(project, "series index", read, size=lambda index: ROW_BYTES * len(index))


def indexed_series(row: Row[Any], known: Workloads) -> IndexedSeries:
    """The record of a row of `select_series` with its key."""
    suite = row.benchmark_name.rpartition(".")[0]
    code = CodeKey(row.machine_id, row.environment_id, suite, row.workload or "", row.implementation or "")
    series = series_record(row, known)
    workload = workload_of(series, known)
    return IndexedSeries(series, code, workload, text_of(series, workload))


def is_measured_somewhere(connection: Connection, project: int | None) -> ColumnElement[bool]:
    """The condition on `schema.series` that its implementation was measured, or failed, on any machine.

    Pages, filters and search leave out implementations that are recorded as not available only.
    """
    series, summary = schema.series, schema.summary
    is_absent = summary.c.status == STATUS_CODES[Status.UNAVAILABLE]
    names = select(series.c.implementation).where(series.c.project_id == project).distinct()
    # A series that is not analysed yet has no summary.
    known = set(
        connection.execute(names.outerjoin(summary).where(or_(summary.c.series_id.is_(None), ~is_absent))).scalars()
    )
    older = (
        select(series.c.implementation, summary.c.sparkline)
        .join(summary)
        .where(series.c.project_id == project, is_absent)
    )
    known |= {
        name for name, values in connection.execute(older) if name not in known and any(x is not None for x in values)
    }
    return or_(series.c.implementation.is_(None), series.c.implementation.in_(known - {None}))

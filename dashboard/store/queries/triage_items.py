"""Triage items of the regressions page: alerts, and steps for the worse without an alert.

Filtered and counted by the short rows of triage_index.py; names, posteriors and histories are read for the items shown.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlalchemy import Connection

from ...model.alert import TriageFilter, TriageItem, TriageList, TriageOrder, TriageState
from ...model.changepoint import Regression
from .. import schema
from ..alerts import regressions_by_id
from ..engine import Store
from ..finding_records import regression_records, select_findings
from ..mappers import commits_by_id, project_id, workloads
from ..statements import id_in
from .series_list import matching_ids
from .triage_index import IndexedItem, ItemSeries, TriageIndex, triage_index

_MOST_ROWS = 200  # regressions of a single item


def triage_items(
    store: Store, project: str, wanted: TriageFilter, *, limit: int = 20, offset: int = 0, rows: int = 8
) -> TriageList:
    """`limit` of the items that pass the filter, from `offset` on, each with at most `rows` of its regressions."""
    owner = _project_id(store, project)
    if owner is None:
        return TriageList(items=(), total=0, counts={}, any_at_all=False, below_limits=0)
    index = _index(store, project, owner, wanted.words)
    passing = [item for item in index.items if _passes(item, wanted)]
    counts = Counter(item.state for item in passing)
    passing = [item for item in passing if item.state in wanted.states]
    if wanted.order is TriageOrder.WORST:
        passing.sort(key=lambda item: -item.severity)
    with store.read() as connection:
        return TriageList(
            items=_items(connection, project, owner, passing[offset : offset + limit], rows),
            total=len(passing),
            counts={state: counts[state] for state in TriageState},
            any_at_all=bool(index.items),
            below_limits=index.below_limits,
        )


def triage_item(store: Store, project: str, key: str) -> TriageItem | None:
    """The item of that key. The key of an untriaged item ends with its triage."""
    owner = _project_id(store, project)
    if owner is None:
        return None
    index = _index(store, project, owner)
    items = [item for item in index.items if item.seen.key == key]
    with store.read() as connection:
        return next(iter(_items(connection, project, owner, items, _MOST_ROWS)), None)


def _project_id(store: Store, project: str) -> int | None:
    with store.read() as connection:
        return project_id(connection, project)


def _index(store: Store, project: str, owner: int, words: str = "") -> TriageIndex:
    """The cached index. Read before the details of its items, so that it is not newer than they are."""

    def read() -> TriageIndex:
        with store.read() as connection:
            return triage_index(connection, owner)

    index = store.cached(project, "triage_index", read)
    if not words.split():
        return index
    found = matching_ids(store, project, words)
    return replace(
        index,
        items=tuple(
            replace(item, matching=tuple(one for one in item.matching if one.series_id in found))
            for item in index.items
        ),
    )


def _passes(item: IndexedItem, wanted: TriageFilter) -> bool:
    if wanted.words and not item.matching:
        return False
    if wanted.machine is not None and item.machine != wanted.machine:
        return False
    return wanted.since is None or item.date_ms >= wanted.since.timestamp() * 1000


def _items(
    connection: Connection, project: str, owner: int, indexed: Sequence[IndexedItem], rows: int
) -> tuple[TriageItem, ...]:
    alerts = regressions_by_id(connection, project, owner, [item.alert for item in indexed if item.alert is not None])
    largest = [
        sorted((one for one in item.matching if one.is_current), key=ItemSeries.order)[:rows] for item in indexed
    ]
    regressions = _regressions(connection, owner, [one for series in largest for one in series])
    commits = commits_by_id(connection, (i for item in indexed for i in (item.commit_id, item.previous_commit_id)))
    items = []
    for item, series in zip(indexed, largest, strict=True):
        alert = alerts.get(item.alert) if item.alert is not None else None
        missing = {one.key for one in item.matching if not one.is_current}
        items.append(
            TriageItem(
                seen=item.seen,
                machine=item.machine,
                commit=commits[item.commit_id],
                previous_commit=commits[item.previous_commit_id],
                state=item.state,
                regressions=tuple(regressions[one.series_id, one.commit_id] for one in series),
                gone=tuple(each for each in alert.series if each.series.key in missing) if alert else (),
                matching=len(item.matching),
                total=len(item.series),
                severity=item.mean_severity,
                alert=alert,
            )
        )
    return tuple(items)


def _regressions(
    connection: Connection, owner: int, series: Sequence[ItemSeries]
) -> Mapping[tuple[int, int], Regression]:
    """The detected changes, by the ids of series and commit."""
    if not series:
        return {}
    table = schema.changepoint
    ids = {(one.series_id, one.commit_id) for one in series}
    is_chosen = id_in(connection, schema.series.c.id, {series_id for series_id, _ in ids})
    every = connection.execute(select_findings(table).where(is_chosen))
    rows = [row for row in every if (row.id, row.commit_id) in ids]
    records = regression_records(connection, table, rows, workloads(connection, owner))
    return {(row.id, row.commit_id): one for row, one in zip(rows, records, strict=True)}

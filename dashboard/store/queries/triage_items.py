"""Triage items of the regressions page: alerts, and steps for the worse without an alert.

Filtered and counted by the short rows of triage_index.py; names, posteriors and histories are read for the items shown.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from sqlalchemy import Connection

from ...model.changepoint import Regression
from ...model.triage_item import ItemVersion, TriageFilter, TriageItem, TriageList, TriageOrder, TriageState
from .. import schema
from ..alerts import regressions_by_id
from ..engine import Store
from ..mappers import (
    change_record,
    commits_by_id,
    commits_of_changes,
    project_id,
    select_series,
    series_record,
    workloads,
)
from ..statements import is_among
from .triage_index import Found, Index, Outline, card_index, narrowed


def cards(
    store: Store, project: str, wanted: TriageFilter, *, limit: int = 20, offset: int = 0, rows: int = 8
) -> TriageList:
    """The cards that the filter wants, `limit` of them from `offset` on, each with `rows` of its series at most."""
    owner = _owner(store, project)
    if owner is None:
        return TriageList(items=(), total=0, counts={}, any_at_all=False, below_limits=0)
    index = _index(store, project, owner, wanted.words)
    found = [one for one in index.outlines if _is_wanted(one, wanted)]
    counts = Counter(one.standing for one in found)
    found = [one for one in found if one.standing in wanted.states]
    if wanted.order is TriageOrder.WORST:
        found.sort(key=lambda one: -one.loss)
    shown = found[offset : offset + limit]
    with store.read() as connection:
        return TriageList(
            items=_cards(connection, project, owner, index, shown, rows),
            total=len(found),
            counts={standing: counts[standing] for standing in TriageState},
            any_at_all=index.any_at_all,
            below_limits=index.below_limits,
        )


def card(store: Store, project: str, key: str, *, rows: int = 200) -> TriageItem | None:
    """The card of that key; one without an alert only as long as it has none."""
    owner = _owner(store, project)
    if owner is None:
        return None
    index = _index(store, project, owner)
    found = [one for one in index.outlines if one.seen.key == key]
    with store.read() as connection:
        return next(iter(_cards(connection, project, owner, index, found, rows)), None)


def _owner(store: Store, project: str) -> int | None:
    with store.read() as connection:
        return project_id(connection, project)


def _index(store: Store, project: str, owner: int, words: str = "") -> Index:
    """All cards, cached. Read before what is shown of them, so that this is no older."""

    def read() -> Index:
        with store.read() as connection:
            return card_index(connection, owner)

    index = store.cached(project, "cards", read)
    if not words.split():
        return index
    with store.read() as connection:
        return narrowed(connection, owner, index, words)


def _is_wanted(one: Outline, wanted: TriageFilter) -> bool:
    if wanted.words and not one.matching:
        return False
    if wanted.machine is not None and one.machine != wanted.machine:
        return False
    return wanted.since is None or one.date_ms >= wanted.since.timestamp() * 1000


def _cards(
    connection: Connection, project: str, owner: int, index: Index, outlines: Sequence[Outline], rows: int
) -> tuple[TriageItem, ...]:
    alerts = regressions_by_id(connection, project, owner, [one.alert for one in outlines if one.alert is not None])
    chosen = {
        id(one): sorted((each for each in one.matching if each.is_current), key=Found.order)[:rows] for one in outlines
    }
    told = _regressions(connection, owner, [each for some in chosen.values() for each in some])
    commits = commits_by_id(connection, (i for one in outlines for i in (one.commit_id, one.previous_commit_id)))
    made = []
    for one in outlines:
        alert = alerts.get(one.alert) if one.alert is not None else None
        missing = {index.keys[each.series_id] for each in one.matching if not each.is_current}
        made.append(
            TriageItem(
                seen=ItemVersion(key=one.seen.key, version=one.seen.version),
                machine=one.machine,
                commit=commits[one.commit_id],
                previous_commit=commits[one.previous_commit_id],
                state=one.standing,
                regressions=tuple(told[each.series_id, each.commit_id] for each in chosen[id(one)]),
                gone=tuple(each for each in alert.series if each.series.key in missing) if alert else (),
                matching=len(one.matching),
                total=one.total,
                severity=one.loss,
                alert=alert,
            )
        )
    return tuple(made)


def _regressions(connection: Connection, owner: int, found: Sequence[Found]) -> Mapping[tuple[int, int], Regression]:
    """What the detector tells, by series' and commit's id."""
    if not found:
        return {}
    table = schema.changepoint
    wanted = {(one.series_id, one.commit_id) for one in found}
    columns = [column for column in table.c if column.name != "series_id"]
    rows = [
        row
        for row in connection.execute(
            select_series(*columns)
            .join(table, table.c.series_id == schema.series.c.id)
            .where(is_among(connection, schema.series.c.id, {series for series, _ in wanted}))
        )
        if (row.id, row.commit_id) in wanted
    ]
    known = workloads(connection, owner)
    commits = commits_by_id(connection, commits_of_changes(rows))
    return {
        (row.id, row.commit_id): Regression(series=series_record(row, known), change=change_record(row, commits))
        for row in rows
    }

"""Triage items of the regressions page: alerts, and steps for the worse without an alert.

A change that belongs to an alert is in the item of that alert. The others make untriaged items, by commit and machine.
Items are filtered and counted by short rows; names, posteriors and histories are read for the items shown.
"""

import hashlib
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection, Row, Select, Table, select

from ...model.alert import (
    AlertKind,
    ItemVersion,
    MeanSeverity,
    TriageFilter,
    TriageItem,
    TriageList,
    TriageOrder,
    TriageState,
)
from ...model.changepoint import Regression
from ...model.metric import Metric, metric
from ...model.series import UNORDERED_POSITION
from ...model.verdict import ChangeKind, Control
from ...statistics.summary import severity
from .. import schema
from ..alert_opening import AlertMembership
from ..cache import ROW_BYTES
from ..engine import Store
from ..finding_records import regression_records, select_findings
from ..mappers import commits_by_id, project_id, workloads
from ..statements import id_in
from .alerts import regressions_by_id
from .regressions import below_limits, watched_metrics
from .series_list import matching_ids


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemSeries:
    """The change of one series of a triage item: as detected now, or as its alert recorded it."""

    series_id: int
    key: str
    machine_id: int
    commit_id: int
    previous_commit_id: int
    place: int
    magnitude: float
    low: float
    high: float
    metric: Metric
    alert: int | None = None  # None: detected now
    machine_share: float = 0.0  # of the change, by canaries or baselines
    is_significant: bool = True  # otherwise only in the item of an alert that was opened for it

    @property
    def is_current(self) -> bool:
        """Whether the detector finds the change now."""
        return self.alert is None

    def order(self) -> tuple[bool, float]:
        """Sort key: times first, the largest first."""
        return not self.metric.is_time, -abs(self.magnitude)

    @property
    def severity(self) -> float:
        """In nats, without the machine's part."""
        return severity(self.low, self.high, machine_share=self.machine_share)


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedItem:
    seen: ItemVersion
    state: TriageState
    alert: int | None
    machine_id: int
    machine: str
    commit_id: int
    previous_commit_id: int
    position: int
    date_ms: int
    matching: tuple[ItemSeries, ...]  # those of `series` that match the query
    series: tuple[ItemSeries, ...]

    @property
    def severity(self) -> float:
        """Sum over its series, in nats."""
        return sum(one.severity for one in self.series)

    @property
    def mean_severity(self) -> MeanSeverity | None:
        """Mean of its first metric with a significant change: latency, then other times, then the rest."""
        by_metric: dict[Metric, list[float]] = {}
        for one in self.series:
            by_metric.setdefault(one.metric, []).append(one.severity)
        significant = {metric: values for metric, values in by_metric.items() if sum(values) > 0}
        if not significant:
            return None
        first, values = max(significant.items(), key=lambda each: (each[0].is_latency, each[0].is_time, sum(each[1])))
        return MeanSeverity(metric=first, mean=sum(values) / len(values), series=len(values))


@dataclass(frozen=True, slots=True, kw_only=True)
class TriageIndex:
    """All triage items of a project, the newest commit first."""

    items: tuple[IndexedItem, ...]
    below_limits: int  # steps for the worse without an alert, below the project's thresholds


def triage_index(connection: Connection, owner: int) -> TriageIndex:
    """The index of a project's triage items."""
    detected, recorded = _detected(connection, owner), _recorded(connection, owner)
    table = schema.alert
    is_regression = table.c.kind == AlertKind.REGRESSION.value
    alerts = connection.execute(select(table).where(table.c.project_id == owner, is_regression)).all()
    rows: tuple[Any, ...] = (*detected, *recorded, *alerts)
    commits = _commits(connection, {i for row in rows for i in (row.commit_id, row.previous_commit_id)})
    of_alerts: dict[int | None, dict[int, ItemSeries]] = {row.id: {} for row in alerts}
    for one in recorded:
        of_alerts[one.alert][one.series_id] = one

    membership = AlertMembership(connection, owner)
    below = below_limits(connection, owner, workloads(connection, owner))
    below_count = 0
    untriaged: dict[tuple[int, int], list[ItemSeries]] = {}
    for one in detected:
        commit = commits[one.commit_id]
        alert = membership.alert_of(one.key, commit.hash, _position(commit), one.place)
        if alert is not None:
            of_alerts[alert][one.series_id] = one
        elif not one.is_significant:
            continue
        elif (one.series_id, one.commit_id) in below:
            below_count += 1
        else:
            untriaged.setdefault((one.commit_id, one.machine_id), []).append(one)

    machine = schema.machine
    named = select(machine.c.id, machine.c.name).where(machine.c.project_id == owner)
    machines: dict[int, str] = {row.id: row.name for row in connection.execute(named)}

    def item(
        seen: ItemVersion,
        state: TriageState,
        alert: int | None,
        machine_id: int,
        ends: tuple[int, int],
        series: tuple[ItemSeries, ...],
    ) -> IndexedItem:
        commit = commits[ends[0]]
        return IndexedItem(
            seen=seen,
            state=state,
            alert=alert,
            machine_id=machine_id,
            machine=machines[machine_id],
            commit_id=ends[0],
            previous_commit_id=ends[1],
            position=_position(commit),
            date_ms=commit.date_ms,
            matching=series,
            series=series,
        )

    items = [
        item(
            ItemVersion(key=f"alert-{row.id}", version=str(row.version)),
            TriageState(row.state),
            row.id,
            row.machine_id,
            (row.commit_id, row.previous_commit_id),
            tuple(of_alerts[row.id].values()),
        )
        for row in alerts
    ]
    for (commit_id, machine_id), series in untriaged.items():
        newest_good = max((one.previous_commit_id for one in series), key=lambda number: commits[number].position or 0)
        seen = ItemVersion(key=f"new-{commits[commit_id].hash}-{machine_id}", version=_digest(series))
        items.append(item(seen, TriageState.UNTRIAGED, None, machine_id, (commit_id, newest_good), tuple(series)))
    items.sort(key=lambda one: (-one.position, one.machine, one.seen.key))
    return TriageIndex(items=tuple(items), below_limits=below_count)


def _position(commit: Any) -> int:
    return commit.position if commit.position is not None else UNORDERED_POSITION


def _commits(connection: Connection, ids: Collection[int]) -> Mapping[int, Any]:
    table = schema.commit
    query = select(table.c.id, table.c.hash, table.c.position, table.c.date_ms)
    return {row.id: row for row in connection.execute(query.where(id_in(connection, table.c.id, ids)))}


def _detected(connection: Connection, owner: int) -> list[ItemSeries]:
    """Steps for the worse of listed, watched series of judged metrics."""
    series, change = schema.series, schema.changepoint
    rows = connection.execute(
        _select_changes(change)
        .add_columns(
            series.c.benchmark_id,
            series.c.implementation,
            change.c.previous_commit_id,
            change.c.control,
            change.c.control_share,
            change.c.control_share_low,
            change.c.kind,
        )
        .where(
            series.c.project_id == owner,
            series.c.listed,
            change.c.is_worse,
            change.c.kind.in_([ChangeKind.STEP.value, ChangeKind.NOT_SIGNIFICANT.value]),
        )
    )
    watched_metric = watched_metrics(connection, owner)
    detected = []
    for row in rows:
        watched = watched_metric(row.benchmark_id, row.implementation, row.metric, row.unit)
        if watched is None:
            continue
        is_attributed = row.control not in (None, Control.OTHERS.value) and row.control_share_low > 0
        detected.append(
            _item_series(
                row,
                metric=watched,
                machine_share=row.control_share if is_attributed else 0.0,
                is_significant=row.kind != ChangeKind.NOT_SIGNIFICANT.value,
            )
        )
    return detected


def _recorded(connection: Connection, owner: int) -> list[ItemSeries]:
    """The changes as the project's alerts recorded them."""
    part, alert = schema.alert_series, schema.alert
    rows = connection.execute(
        _select_changes(part)
        .add_columns(part.c.alert_id, alert.c.previous_commit_id)
        .join(alert, alert.c.id == part.c.alert_id)
        .where(alert.c.project_id == owner)
    )
    return [_item_series(row, metric=metric(row.metric, row.unit), alert=row.alert_id) for row in rows]


def _select_changes(table: Table) -> Select[Any]:
    """Rows of `changepoint` or `alert_series` with what identifies their series."""
    series = schema.series
    columns = [table.c[name] for name in ("commit_id", "place", "magnitude", "low", "high")]
    return select(series.c.id, series.c.key, series.c.machine_id, series.c.metric, series.c.unit, *columns).join(
        table, table.c.series_id == series.c.id
    )


def _item_series(row: Row[Any], **facts: Any) -> ItemSeries:
    return ItemSeries(
        series_id=row.id,
        key=row.key,
        machine_id=row.machine_id,
        commit_id=row.commit_id,
        previous_commit_id=row.previous_commit_id,
        place=row.place,
        magnitude=row.magnitude,
        low=row.low,
        high=row.high,
        **facts,
    )


def _digest(series: Iterable[ItemSeries]) -> str:
    """Version of an item without an alert: it changes with the set of series."""
    ids = ",".join(str(number) for number in sorted(one.series_id for one in series))
    return hashlib.sha256(ids.encode()).hexdigest()[:12]


_MOST_ROWS = 200  # regressions of a single item


def triage_items(
    store: Store, project: str, wanted: TriageFilter, *, limit: int = 20, offset: int = 0, rows: int = 8
) -> TriageList:
    """`limit` of the items that pass the filter, from `offset` on, each with at most `rows` of its regressions."""
    index = _index(store, project, wanted.words)
    passing = [item for item in index.items if _passes(item, wanted)]
    counts = Counter(item.state for item in passing)
    passing = [item for item in passing if item.state in wanted.states]
    if wanted.order is TriageOrder.WORST:
        passing.sort(key=lambda item: -item.severity)
    return TriageList(
        items=_items(store, project, passing[offset : offset + limit], rows),
        total=len(passing),
        counts={state: counts[state] for state in TriageState},
        any_at_all=bool(index.items),
        below_limits=index.below_limits,
    )


def triage_item(store: Store, project: str, key: str) -> TriageItem | None:
    """The item of that key. The key of an untriaged item ends with its triage."""
    index = _index(store, project)
    items = [item for item in index.items if item.seen.key == key]
    return next(iter(_items(store, project, items, _MOST_ROWS)), None)


def _index(store: Store, project: str, words: str = "") -> TriageIndex:
    """The cached index. Read before the details of its items, so that it is not newer than they are."""

    def read() -> TriageIndex:
        with store.read() as connection:
            return triage_index(connection, project_id(connection, project))

    index = store.cached(project, "triage_index", read)
    if not words.split():
        return index
    found = matching_ids(store, project, words)
    return replace(index, items=tuple(_with_matching(item, found) for item in index.items))


def _with_matching(item: IndexedItem, found: Collection[int]) -> IndexedItem:
    matching = tuple(one for one in item.series if one.series_id in found)
    return item if len(matching) == len(item.series) else replace(item, matching=matching)


def _passes(item: IndexedItem, wanted: TriageFilter) -> bool:
    if wanted.words and not item.matching:
        return False
    if wanted.machine is not None and item.machine != wanted.machine:
        return False
    return wanted.since is None or item.date_ms >= wanted.since.timestamp() * 1000


def _items(store: Store, project: str, indexed: Sequence[IndexedItem], rows: int) -> tuple[TriageItem, ...]:
    """Records of the items: cached, unless a reader's words chose among the series of one."""

    def key(item: IndexedItem) -> Hashable | None:
        return ("triage item", item.seen.key, rows) if len(item.matching) == len(item.series) else None

    def read(chosen: Sequence[IndexedItem]) -> tuple[TriageItem, ...]:
        with store.read() as connection:
            return _read_items(connection, project, chosen, rows)

    return tuple(store.cached_each(project, indexed, key, read, size=_bytes))


def _bytes(item: TriageItem) -> int:
    alerted = len(item.alert.series) + len(item.alert.events) if item.alert is not None else 0
    commits = sum(len(one.change.posterior) for one in item.regressions)
    return ROW_BYTES * (1 + len(item.regressions) + commits + alerted)


def _read_items(
    connection: Connection, project: str, indexed: Sequence[IndexedItem], rows: int
) -> tuple[TriageItem, ...]:
    owner = project_id(connection, project)
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

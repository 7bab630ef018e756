"""Triage items: alerts, and steps for the worse that no alert holds yet."""

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection, select

from ...model.changepoint import Regression
from ...model.metric import metric
from ...model.series import UNORDERED_POSITION
from ...model.triage_item import Card, CardFilter, CardList, CardOrder, Seen, Standing
from ...model.verdict import ChangeKind, Control
from ...statistics.summary import sure_loss
from .. import alerts as kept_alerts
from .. import schema
from ..alert_membership import AlertMembership
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
from .regressions import below_limits, named_series, watched_metrics

# All cards of a project in outline: which series each holds, where it stands and how much it weighs.
#
# A change that belongs to an alert is on the card of that alert. The others are cards by commit and machine, which
# nobody has triaged yet.


@dataclass(frozen=True, slots=True)
class Found:
    """One series of a card: what the detector tells of it, or what an alert remembers that it told."""

    series_id: int
    commit_id: int
    previous_commit_id: int
    place: int
    magnitude: float
    low: float
    high: float
    is_time: bool
    machine_share: float  # of it, as canaries or baselines show
    is_told: bool  # by the detector, now
    is_doubtful: bool = False  # it may be chance: on the card of an alert that was opened for it, and on no other

    def order(self) -> tuple[bool, float]:
        """Times first, the largest first."""
        return not self.is_time, -abs(self.magnitude)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    """One card."""

    seen: Seen
    standing: Standing
    alert: int | None
    machine_id: int
    machine: str
    commit_id: int
    previous_commit_id: int
    position: int
    date_ms: int
    matching: tuple[Found, ...]  # those series that the words find; all of them without words
    total: int
    loss: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Index:
    """Every card, the newest commit first, and the keys of all series on them by id."""

    outlines: tuple[Outline, ...]
    keys: Mapping[int, str]
    any_at_all: bool
    below_limits: int  # steps for the worse that no alert holds, and that count for nothing by what the project states


def card_index(connection: Connection, owner: int) -> Index:
    """The cards of a project."""
    told, keys = _told(connection, owner)
    below = below_limits(connection, owner, workloads(connection, owner))
    left_out = 0
    held, more_keys = _held(connection, owner)
    keys |= more_keys
    alerts = {row.id: row for row in connection.execute(select(schema.alert).where(schema.alert.c.project_id == owner))}
    of_alerts: dict[int, dict[int, Found]] = {number: {} for number in alerts}
    for alert, remembered in held:
        of_alerts[alert][remembered.series_id] = remembered
    ends = {each for one in (*(one for _, one in told), *(one for _, one in held)) for each in _ends(one)}
    ends |= {each for row in alerts.values() for each in (row.commit_id, row.previous_commit_id)}
    commits = _commits(connection, ends)
    membership = AlertMembership(connection, owner)
    fresh: dict[tuple[int, int], list[Found]] = {}
    for machine, one in told:
        commit = commits[one.commit_id]
        its_alert = membership.alert_of(keys[one.series_id], commit.hash, _position(commit), one.place)
        if its_alert is not None:
            of_alerts[its_alert][one.series_id] = one
        elif one.is_doubtful:
            continue
        elif (one.series_id, one.commit_id) in below:
            left_out += 1
        else:
            fresh.setdefault((one.commit_id, machine), []).append(one)
    its_machines = select(schema.machine.c.id, schema.machine.c.name).where(schema.machine.c.project_id == owner)
    machines = {row.id: row.name for row in connection.execute(its_machines)}

    def outline(
        seen: Seen, standing: Standing, alert: int | None, machine: int, between: tuple[int, int], its: Sequence[Found]
    ) -> Outline:
        commit = commits[between[0]]
        return Outline(
            seen=seen,
            standing=standing,
            alert=alert,
            machine_id=machine,
            machine=machines[machine],
            commit_id=between[0],
            previous_commit_id=between[1],
            position=_position(commit),
            date_ms=commit.date_ms,
            matching=tuple(its),
            total=len(its),
            loss=sum(sure_loss(one.low, one.high, machine_share=one.machine_share) for one in its),
        )

    found = [
        outline(
            Seen(key=f"alert-{number}", version=str(row.version)),
            Standing(row.state),
            number,
            row.machine_id,
            (row.commit_id, row.previous_commit_id),
            list(of_alerts[number].values()),
        )
        for number, row in alerts.items()
    ]
    for (number, machine), its in fresh.items():
        newest_good = max((one.previous_commit_id for one in its), key=lambda number: commits[number].position or 0)
        seen = Seen(key=f"new-{commits[number].hash}-{machine}", version=_digest(its))
        found.append(outline(seen, Standing.UNTRIAGED, None, machine, (number, newest_good), its))
    found.sort(key=lambda one: (-one.position, one.machine, one.seen.key))
    return Index(outlines=tuple(found), keys=keys, any_at_all=bool(found), below_limits=left_out)


def narrowed(connection: Connection, owner: int, index: Index, words: str) -> Index:
    """The same cards, each with those of its series alone that have all words in their name."""
    found = named_series(connection, owner, words)
    outlines = (
        replace(one, matching=tuple(each for each in one.matching if each.series_id in found)) for one in index.outlines
    )
    return replace(index, outlines=tuple(outlines))


def _position(commit: Any) -> int:
    return commit.position if commit.position is not None else UNORDERED_POSITION


def _ends(one: Found) -> tuple[int, int]:
    return one.commit_id, one.previous_commit_id


def _commits(connection: Connection, ids: Collection[int]) -> Mapping[int, Any]:
    table = schema.commit
    wanted = select(table.c.id, table.c.hash, table.c.position, table.c.date_ms)
    return {row.id: row for row in connection.execute(wanted.where(is_among(connection, table.c.id, ids)))}


def _told(connection: Connection, owner: int) -> tuple[list[tuple[int, Found]], dict[int, str]]:
    """Steps for the worse of listed, watched series of judged metrics, with their machine; and the series' keys."""
    series, change = schema.series, schema.changepoint
    kind = watched_metrics(connection, owner)
    rows = connection.execute(
        select(
            series.c.id,
            series.c.key,
            series.c.machine_id,
            series.c.benchmark_id,
            series.c.implementation,
            series.c.metric,
            series.c.unit,
            change.c.commit_id,
            change.c.previous_commit_id,
            change.c.place,
            change.c.magnitude,
            change.c.low,
            change.c.high,
            change.c.control,
            change.c.control_share,
            change.c.control_share_low,
            change.c.kind,
        )
        .join(change, change.c.series_id == series.c.id)
        .where(
            series.c.project_id == owner,
            series.c.listed,
            change.c.is_worse,
            change.c.kind.in_([ChangeKind.STEP.value, ChangeKind.MAY_BE_CHANCE.value]),
        )
    )
    told, keys = [], {}
    for (
        number,
        key,
        machine,
        benchmark,
        implementation,
        name,
        unit,
        commit,
        previous,
        place,
        magnitude,
        low,
        high,
        control,
        share,
        share_low,
        told_kind,
    ) in rows:
        its = kind(benchmark, implementation, name, unit)
        if its is None:
            continue
        keys[number] = key
        part = share if control not in (None, Control.OTHERS.value) and share_low > 0 else 0.0
        told.append(
            (
                machine,
                Found(
                    number,
                    commit,
                    previous,
                    place,
                    magnitude,
                    low,
                    high,
                    its.is_time,
                    part,
                    True,
                    told_kind == ChangeKind.MAY_BE_CHANCE.value,
                ),
            )
        )
    return told, keys


def _held(connection: Connection, owner: int) -> tuple[list[tuple[int, Found]], dict[int, str]]:
    """What the project's alerts remember, with the alert's id; and the series' keys."""
    series, part, alert = schema.series, schema.alert_series, schema.alert
    rows = connection.execute(
        select(
            part.c.alert_id,
            series.c.id,
            series.c.key,
            series.c.metric,
            series.c.unit,
            part.c.commit_id,
            alert.c.previous_commit_id,
            part.c.place,
            part.c.magnitude,
            part.c.low,
            part.c.high,
        )
        .join(alert, alert.c.id == part.c.alert_id)
        .join(series, series.c.id == part.c.series_id)
        .where(alert.c.project_id == owner)
    )
    held, keys = [], {}
    for number, its_series, key, name, unit, commit, previous, place, magnitude, low, high in rows:
        keys[its_series] = key
        is_time = metric(name, unit).is_time
        one = Found(its_series, commit, previous, place, magnitude, low, high, is_time, 0.0, False)
        held.append((number, one))
    return held, keys


def _digest(its: Iterable[Found]) -> str:
    """Another one where a card without an alert has other series than when somebody saw it."""
    named = ",".join(str(number) for number in sorted(one.series_id for one in its))
    return hashlib.sha256(named.encode()).hexdigest()[:12]


# The cards of the regressions page: alerts, and steps for the worse that no alert holds yet.
#
# Chosen and counted by short rows of all of them (triage_items.py); names, posteriors and histories are read of those
# that are shown.


def cards(
    store: Store, project: str, wanted: CardFilter, *, limit: int = 20, offset: int = 0, rows: int = 8
) -> CardList:
    """The cards that the filter wants, `limit` of them from `offset` on, each with `rows` of its series at most."""
    owner = _owner(store, project)
    if owner is None:
        return CardList(cards=(), total=0, counts={}, any_at_all=False, below_limits=0)
    index = _index(store, project, owner, wanted.words)
    found = [one for one in index.outlines if _is_wanted(one, wanted)]
    counts = Counter(one.standing for one in found)
    found = [one for one in found if one.standing in wanted.standings]
    if wanted.order is CardOrder.WORST:
        found.sort(key=lambda one: -one.loss)
    shown = found[offset : offset + limit]
    with store.read() as connection:
        return CardList(
            cards=_cards(connection, project, owner, index, shown, rows),
            total=len(found),
            counts={standing: counts[standing] for standing in Standing},
            any_at_all=index.any_at_all,
            below_limits=index.below_limits,
        )


def card(store: Store, project: str, key: str, *, rows: int = 200) -> Card | None:
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


def _is_wanted(one: Outline, wanted: CardFilter) -> bool:
    if wanted.words and not one.matching:
        return False
    if wanted.machine is not None and one.machine != wanted.machine:
        return False
    return wanted.since is None or one.date_ms >= wanted.since.timestamp() * 1000


def _cards(
    connection: Connection, project: str, owner: int, index: Index, outlines: Sequence[Outline], rows: int
) -> tuple[Card, ...]:
    alerts = kept_alerts.alerts_by_id(
        connection, project, owner, [one.alert for one in outlines if one.alert is not None]
    )
    chosen = {
        id(one): sorted((each for each in one.matching if each.is_told), key=Found.order)[:rows] for one in outlines
    }
    told = _regressions(connection, owner, [each for some in chosen.values() for each in some])
    commits = commits_by_id(connection, (i for one in outlines for i in (one.commit_id, one.previous_commit_id)))
    made = []
    for one in outlines:
        alert = alerts.get(one.alert) if one.alert is not None else None
        missing = {index.keys[each.series_id] for each in one.matching if not each.is_told}
        made.append(
            Card(
                seen=Seen(key=one.seen.key, version=one.seen.version),
                machine=one.machine,
                commit=commits[one.commit_id],
                previous_commit=commits[one.previous_commit_id],
                standing=one.standing,
                regressions=tuple(told[each.series_id, each.commit_id] for each in chosen[id(one)]),
                gone=tuple(each for each in alert.series if each.series.key in missing) if alert else (),
                matching=len(one.matching),
                total=one.total,
                loss=one.loss,
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

"""Index of triage items: which series each holds, its state and its weight, in short rows.

A change that belongs to an alert is in the item of that alert. The others make untriaged items, by commit and machine.
"""

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection, select

from ...model.alert import AlertKind
from ...model.metric import metric
from ...model.series import UNORDERED_POSITION
from ...model.triage_item import ItemVersion, TriageState
from ...model.verdict import ChangeKind, Control
from ...statistics.summary import severity
from .. import schema
from ..alert_membership import AlertMembership
from ..mappers import workloads
from ..statements import is_among
from .regressions import below_limits, named_series, watched_metrics


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
    is_current: bool  # the detector finds it now; else only an alert remembers it
    is_doubtful: bool = False  # it may be chance: on the card of an alert that was opened for it, and on no other

    def order(self) -> tuple[bool, float]:
        """Times first, the largest first."""
        return not self.is_time, -abs(self.magnitude)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    """One card."""

    seen: ItemVersion
    standing: TriageState
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
    current, keys = _current(connection, owner)
    below = below_limits(connection, owner, workloads(connection, owner))
    left_out = 0
    remembered, more_keys = _remembered(connection, owner)
    keys |= more_keys
    table = schema.alert
    is_regression = table.c.kind == AlertKind.REGRESSION.value
    rows = connection.execute(select(table).where(table.c.project_id == owner, is_regression))
    alerts = {row.id: row for row in rows}
    of_alerts: dict[int, dict[int, Found]] = {number: {} for number in alerts}
    for alert, one in remembered:
        of_alerts[alert][one.series_id] = one
    ends = {each for one in (*(one for _, one in current), *(one for _, one in remembered)) for each in _ends(one)}
    ends |= {each for row in alerts.values() for each in (row.commit_id, row.previous_commit_id)}
    commits = _commits(connection, ends)
    membership = AlertMembership(connection, owner)
    fresh: dict[tuple[int, int], list[Found]] = {}
    for machine, one in current:
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
        seen: ItemVersion,
        standing: TriageState,
        alert: int | None,
        machine: int,
        between: tuple[int, int],
        its: Sequence[Found],
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
            loss=sum(severity(one.low, one.high, machine_share=one.machine_share) for one in its),
        )

    found = [
        outline(
            ItemVersion(key=f"alert-{number}", version=str(row.version)),
            TriageState(row.state),
            number,
            row.machine_id,
            (row.commit_id, row.previous_commit_id),
            list(of_alerts[number].values()),
        )
        for number, row in alerts.items()
    ]
    for (number, machine), its in fresh.items():
        newest_good = max((one.previous_commit_id for one in its), key=lambda number: commits[number].position or 0)
        seen = ItemVersion(key=f"new-{commits[number].hash}-{machine}", version=_digest(its))
        found.append(outline(seen, TriageState.UNTRIAGED, None, machine, (number, newest_good), its))
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


def _current(connection: Connection, owner: int) -> tuple[list[tuple[int, Found]], dict[int, str]]:
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
    found, keys = [], {}
    for row in rows:
        its_metric = kind(row.benchmark_id, row.implementation, row.metric, row.unit)
        if its_metric is None:
            continue
        keys[row.id] = row.key
        is_attributed = row.control not in (None, Control.OTHERS.value) and row.control_share_low > 0
        one = Found(
            series_id=row.id,
            commit_id=row.commit_id,
            previous_commit_id=row.previous_commit_id,
            place=row.place,
            magnitude=row.magnitude,
            low=row.low,
            high=row.high,
            is_time=its_metric.is_time,
            machine_share=row.control_share if is_attributed else 0.0,
            is_current=True,
            is_doubtful=row.kind == ChangeKind.MAY_BE_CHANCE.value,
        )
        found.append((row.machine_id, one))
    return found, keys


def _remembered(connection: Connection, owner: int) -> tuple[list[tuple[int, Found]], dict[int, str]]:
    """The changes that the project's alerts remember, with the alert's id; and the series' keys."""
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
    found, keys = [], {}
    for row in rows:
        keys[row.id] = row.key
        one = Found(
            series_id=row.id,
            commit_id=row.commit_id,
            previous_commit_id=row.previous_commit_id,
            place=row.place,
            magnitude=row.magnitude,
            low=row.low,
            high=row.high,
            is_time=metric(row.metric, row.unit).is_time,
            machine_share=0.0,
            is_current=False,
        )
        found.append((row.alert_id, one))
    return found, keys


def _digest(its: Iterable[Found]) -> str:
    """Another one where a card without an alert has other series than when somebody saw it."""
    named = ",".join(str(number) for number in sorted(one.series_id for one in its))
    return hashlib.sha256(named.encode()).hexdigest()[:12]

"""Alerts of every kind, new regressions, and the regressions of alerts."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection, Row, Select, select

from ...model.alert import (
    HEALTH_KINDS,
    Alert,
    AlertedSeries,
    AlertEvent,
    AlertKind,
    AlertState,
    EventKind,
    HealthAlert,
    HealthFinding,
    LastNotification,
    RegressionAlert,
    StatedChange,
)
from ...model.changepoint import Regression, RegressionGroup, SeriesChange
from ...model.series import Commit
from ...model.verdict import ChangeKind
from .. import schema
from ..alert_opening import AlertMembership
from ..engine import Store
from ..mappers import (
    Workloads,
    commit_record,
    commits_by_id,
    moment,
    project_id,
    select_series,
    series_record,
    workloads,
)
from ..statements import id_in
from .regressions import regressions_in, series_changes_in

UNRESOLVED = tuple(state for state in AlertState if state is not AlertState.RESOLVED)


def alerts(
    store: Store,
    project: str,
    *,
    kinds: Sequence[AlertKind] = tuple(AlertKind),
    states: Sequence[AlertState] = tuple(AlertState),
    limit: int = 200,
) -> tuple[Alert, ...]:
    """The project's alerts of any of the kinds in any of the states, newest first."""
    table = schema.alert
    with store.read() as connection:
        owner = project_id(connection, project)
        rows = connection.execute(
            alert_rows(owner)
            .where(table.c.kind.in_([kind.value for kind in kinds]))
            .where(table.c.state.in_([state.value for state in states]))
            .limit(limit)
        ).all()
        return alert_records(connection, project, owner, rows)


def health_alerts(store: Store, project: str) -> tuple[HealthAlert, ...]:
    """The project's unresolved health alerts, newest first."""
    found = alerts(store, project, kinds=HEALTH_KINDS, states=UNRESOLVED, limit=1_000)
    return tuple(alert for alert in found if isinstance(alert, HealthAlert))


def alert_rows(owner: int) -> Select[Any]:
    """The project's rows for `alert_records`, newest first."""
    table = schema.alert
    return (
        select(table, schema.machine.c.name.label("machine_name"), schema.machine.c.findings)
        .join(schema.machine, schema.machine.c.id == table.c.machine_id)
        .where(table.c.project_id == owner)
        .order_by(table.c.opened_ms.desc(), table.c.id.desc())
    )


def alert_records(connection: Connection, project: str, owner: int, rows: Sequence[Row[Any]]) -> tuple[Alert, ...]:
    """The rows of `alert_rows` as records, in the same order."""
    regressions = [row for row in rows if row.kind == AlertKind.REGRESSION]
    ids = [row.id for row in regressions]
    stated_rows = _stated_rows(connection, ids)
    commits = commits_by_id(
        connection, (i for row in (*regressions, *stated_rows) for i in (row.commit_id, row.previous_commit_id))
    )
    stated = {
        row.alert_id: StatedChange(
            commit=commits[row.commit_id],
            previous_commit=commits[row.previous_commit_id],
            author=row.author,
            at=moment(row.stated_ms),
        )
        for row in stated_rows
    }
    series = _alerted_series(connection, owner, ids)
    events = _events(connection, [row.id for row in rows])
    return tuple(
        _record(project, row, commits, series.get(row.id, ()), stated.get(row.id), tuple(events.get(row.id, ())))
        for row in rows
    )


def regressions_by_id(
    connection: Connection, project: str, owner: int, ids: Iterable[int]
) -> dict[int, RegressionAlert]:
    rows = connection.execute(alert_rows(owner).where(id_in(connection, schema.alert.c.id, list(ids)))).all()
    found = alert_records(connection, project, owner, rows)
    return {alert.id: alert for alert in found if isinstance(alert, RegressionAlert)}


def _record(
    project: str,
    row: Row[Any],
    commits: Mapping[int, Commit],
    series: Sequence[AlertedSeries],
    stated: StatedChange | None,
    events: tuple[AlertEvent, ...],
) -> Alert:
    common: dict[str, Any] = {
        "id": row.id,
        "project": project,
        "kind": AlertKind(row.kind),
        "machine": row.machine_name,
        "state": AlertState(row.state),
        "opened": moment(row.opened_ms),
        "events": events,
        "thread": row.thread,
        "messages": row.messages,
        "assignee": row.assignee,
        "link": row.link,
        "version": row.version,
    }
    if row.kind != AlertKind.REGRESSION:
        return HealthAlert(**common, finding=HealthFinding.from_json(row.finding))
    return RegressionAlert(
        **common,
        commit=commits[row.commit_id],
        previous_commit=commits[row.previous_commit_id],
        series=tuple(sorted(series, key=lambda one: -abs(one.magnitude))),
        stated=stated,
        notified=LastNotification.from_json(row.notified) if row.notified else None,
        findings=row.findings,
    )


def _stated_rows(connection: Connection, alerts: Sequence[int]) -> Sequence[Row[Any]]:
    table = schema.stated_change
    return connection.execute(select(table).where(id_in(connection, table.c.alert_id, alerts))).all()


def _alerted_series(connection: Connection, owner: int, alerts: Sequence[int]) -> dict[int, list[AlertedSeries]]:
    known = workloads(connection, owner) if alerts else Workloads()
    part = schema.alert_series
    found: dict[int, list[AlertedSeries]] = {}
    for row in connection.execute(
        select_series(
            part.c.alert_id,
            part.c.magnitude,
            part.c.low,
            part.c.high,
            part.c.place,
            part.c.resolved,
            schema.commit.c.hash,
            (schema.machine.c.findings == schema.machine.c.judged).label("is_judged"),
        )
        .join(part, part.c.series_id == schema.series.c.id)
        .join(schema.commit, schema.commit.c.id == part.c.commit_id)
        .where(id_in(connection, part.c.alert_id, alerts))
    ):
        one = AlertedSeries(
            series=series_record(row, known),
            magnitude=row.magnitude,
            ci_low=row.low,
            ci_high=row.high,
            commit=row.hash,
            place=row.place,
            is_resolved=row.resolved,
            is_settled=row.is_judged and not row.stale,
        )
        found.setdefault(row.alert_id, []).append(one)
    return found


def _events(connection: Connection, alerts: Sequence[int]) -> dict[int, list[AlertEvent]]:
    """The history of each alert, oldest event first."""
    table = schema.alert_event
    found: dict[int, list[AlertEvent]] = {}
    rows = connection.execute(select(table).where(id_in(connection, table.c.alert_id, alerts)).order_by(table.c.id))
    for row in rows:
        event = AlertEvent(
            at=moment(row.at_ms),
            state=AlertState(row.state),
            author=row.author,
            note=row.note,
            kind=EventKind(row.kind),
            detail=row.detail,
        )
        found.setdefault(row.alert_id, []).append(event)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class RegressionsByAlert:
    """A project's steps for the worse, by the id of their alert, and the reportable ones without an alert."""

    of_alerts: Mapping[int, tuple[Regression, ...]]
    new: tuple[RegressionGroup, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertSnapshot:
    """Alerts and regressions as one transaction sees them."""

    new: tuple[Regression, ...]  # reportable, without an alert
    held: Mapping[int, tuple[Regression, ...]]  # by the id of their alert
    alerts: tuple[RegressionAlert, ...]  # newest first; resolved ones only with a regression
    changes: Mapping[str, tuple[SeriesChange, ...]]  # of each series with an alert or a new regression


def alert_snapshot(store: Store, project: str, *, recent_days: float, max_false_discovery_rate: float) -> AlertSnapshot:
    """New regressions (see `new_regressions_in`), and the alerts to update, from one transaction.

    In several transactions, an analysis in between would make them contradict each other.
    """
    with store.read() as connection:
        owner = project_id(connection, project)
        regressions = regressions_by_alert_in(connection, project)
        groups = new_regressions_in(connection, owner, regressions, recent_days, max_false_discovery_rate)
        new = tuple(one for group in groups for one in group.regressions)
        table = schema.alert
        is_current = (table.c.state != AlertState.RESOLVED.value) | id_in(
            connection, table.c.id, list(regressions.of_alerts)
        )
        is_regression = table.c.kind == AlertKind.REGRESSION.value
        rows = connection.execute(alert_rows(owner).where(is_regression, is_current)).all()
        records = alert_records(connection, project, owner, rows)
        known = tuple(alert for alert in records if isinstance(alert, RegressionAlert))
        keys = {one.series.key for alert in known for one in alert.series} | {one.series.key for one in new}
        return AlertSnapshot(
            new=new, held=regressions.of_alerts, alerts=known, changes=series_changes_in(connection, keys)
        )


def new_regressions_in(
    connection: Connection,
    owner: int,
    regressions: RegressionsByAlert,
    recent_days: float,
    max_false_discovery_rate: float,
) -> tuple[RegressionGroup, ...]:
    """Regression groups without the regressions that belong to an alert; empty groups are left out.

    Only classified steps with a q-value up to `max_false_discovery_rate`. Others are reported once more runs confirm
    them. Only commits at most `recent_days` older than the project's newest, so that the first import of a long history
    sends no alerts.
    """
    table = schema.commit
    row = connection.execute(
        select(table).where(table.c.project_id == owner).order_by(table.c.position.desc()).limit(1)
    ).first()
    if row is None:
        return ()
    since = commit_record(row).date - timedelta(days=recent_days)
    new = []
    for group in regressions.new:
        significant = tuple(
            one
            for one in group.regressions
            if one.change.q_value is not None and one.change.q_value <= max_false_discovery_rate
        )
        if significant and group.commit.date >= since:
            new.append(replace(group, regressions=significant))
    return tuple(new)


def regressions_by_alert_in(connection: Connection, project: str) -> RegressionsByAlert:
    """Regressions by alert, with steps that are no longer significant: one more run does not resolve an alert."""
    owner = project_id(connection, project)
    membership = AlertMembership(connection, owner)
    of_alerts: dict[int, list[Regression]] = {}
    new = []
    for group in regressions_in(connection, project, (ChangeKind.STEP, ChangeKind.NOT_SIGNIFICANT)):
        without_alert = []
        for one in group.regressions:
            alert = membership.alert_of_change(one.series.key, one.change)
            if alert is not None:
                of_alerts.setdefault(alert, []).append(one)
            elif one.counts:
                without_alert.append(one)
        if without_alert:
            new.append(replace(group, regressions=tuple(without_alert)))
    return RegressionsByAlert(of_alerts={alert: tuple(each) for alert, each in of_alerts.items()}, new=tuple(new))

"""Steps in an alert's life, of either kind: of a regression (table `alert_event`) and of the data (`health_event`)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row, Select, Table, insert, select

from ..model.alert import Alert, AlertedSeries, AlertEvent, AlertState, EventKind, StatedChange, Told
from ..model.changepoint import Regression, RegressionGroup, SeriesChange
from ..model.series import Commit
from ..model.verdict import ChangeKind
from ..statistics.multiplicity import LIMIT
from . import outbox, schema
from .alert_membership import AlertMembership
from .engine import Store
from .mappers import Workloads, commit_record, commits_by_id, project_id, select_series, series_record, workloads
from .queries.regressions import regressions_in, series_changes_in
from .statements import insert_new, is_among, is_one_of


def add_event(
    connection: Connection,
    alert: int,
    state: AlertState,
    *,
    now_ms: int,
    author: str | None,
    note: str | None = None,
    kind: EventKind = EventKind.STATE,
    detail: str | None = None,
    table: Table = schema.alert_event,
) -> None:
    """Adds a step to an alert's history."""
    values = {
        "alert_id": alert,
        "at_ms": now_ms,
        "state": state.value,
        "author": author,
        "note": note,
        "kind": kind.value,
        "detail": detail,
    }
    connection.execute(insert(table).values(**values))


def events_of(
    connection: Connection, alerts: Sequence[int], table: Table = schema.alert_event
) -> dict[int, list[AlertEvent]]:
    """The steps of each of the alerts, the first first."""
    found: dict[int, list[AlertEvent]] = {}
    its_own = is_among(connection, table.c.alert_id, alerts)
    for row in connection.execute(select(table).where(its_own).order_by(table.c.id)):
        found.setdefault(row.alert_id, []).append(
            AlertEvent(
                at=datetime.fromtimestamp(row.at_ms / 1000, UTC),
                state=AlertState(row.state),
                author=row.author,
                note=row.note,
                kind=EventKind(row.kind),
                detail=row.detail,
            )
        )
    return found


# Alerts in the store: which regressions are new, which alerts are open, and how they moved on.
#
# What people do with them is triage.py's.


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldRegressions:
    """A project's steps for the worse: those that an alert holds, by its id, and of the others those that count."""

    held: Mapping[int, tuple[Regression, ...]]
    fresh: tuple[RegressionGroup, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertsNow:
    """What a look at a project sees, all of one moment."""

    new: tuple[Regression, ...]  # that no alert holds and that count
    held: Mapping[int, tuple[Regression, ...]]  # by the id of their alert
    alerts: tuple[Alert, ...]  # the newest first; a resolved one only if it holds a regression
    changes: Mapping[str, tuple[SeriesChange, ...]]  # all of each series that has an alert or a new regression


def alerts_now(store: Store, project: str, *, recent_days: float, most_false: float) -> AlertsNow:
    """New regressions, as `new_regressions` has them, and the alerts that may go on, read in one transaction.

    Read in several, an analysis or another process in between would make one contradict the other.
    """
    with store.read() as connection:
        owner = project_id(connection, project)
        if owner is None:
            return AlertsNow(new=(), held={}, alerts=(), changes={})
        its = _held_regressions(connection, project)
        groups = _new_regressions(connection, owner, its, recent_days, most_false)
        new = tuple(one for group in groups for one in group.regressions)
        table = schema.alert
        may_go_on = (table.c.state != AlertState.RESOLVED.value) | is_among(connection, table.c.id, list(its.held))
        rows = connection.execute(_alert_rows(owner).where(may_go_on)).all()
        known = _records(connection, project, owner, rows)
        keys = {one.series.key for alert in known for one in alert.series} | {one.series.key for one in new}
        return AlertsNow(new=new, held=its.held, alerts=known, changes=series_changes_in(connection, keys))


def new_regressions(
    store: Store, project: str, *, recent_days: float = 30, most_false: float = LIMIT
) -> tuple[RegressionGroup, ...]:
    """Regression groups without the regressions that some alert already holds; empty groups are left out.

    Steps alone, that were judged with the rest of their machine, and of those up to a false discovery rate: so many of
    the changes told at one commit and machine may be chance. What exceeds it is told once more runs bear it out.

    Only commits at most `recent_days` older than the project's newest: a first import of years of history is no news.
    """
    with store.read() as connection:
        owner = project_id(connection, project)
        if owner is None:
            return ()
        return _new_regressions(connection, owner, _held_regressions(connection, project), recent_days, most_false)


def _new_regressions(
    connection: Connection, owner: int, its: HeldRegressions, recent_days: float, most_false: float
) -> tuple[RegressionGroup, ...]:
    table = schema.commit
    row = connection.execute(
        select(table).where(table.c.project_id == owner).order_by(table.c.position.desc()).limit(1)
    ).first()
    if row is None:
        return ()
    since = commit_record(row).date - timedelta(days=recent_days)
    found = []
    for group in its.fresh:
        sure = tuple(
            one for one in group.regressions if one.change.q_value is not None and one.change.q_value <= most_false
        )
        if sure and group.commit.date >= since:
            found.append(replace(group, regressions=sure))
    return tuple(found)


def held_regressions(store: Store, project: str) -> HeldRegressions:
    """Which regression belongs to which alert.

    Steps that may be chance are among them: an alert goes on where one more run doubts what it was opened for.
    """
    with store.read() as connection:
        return _held_regressions(connection, project)


def _held_regressions(connection: Connection, project: str) -> HeldRegressions:
    owner = project_id(connection, project)
    membership = AlertMembership(connection, owner) if owner is not None else None
    held: dict[int, list[Regression]] = {}
    fresh = []
    for group in regressions_in(connection, project, (ChangeKind.STEP, ChangeKind.MAY_BE_CHANCE)):
        left = []
        for one in group.regressions:
            alert = membership.alert_of_change(one.series.key, one.change) if membership is not None else None
            if alert is not None:
                held.setdefault(alert, []).append(one)
            elif one.counts:
                left.append(one)
        if left:
            fresh.append(replace(group, regressions=tuple(left)))
    return HeldRegressions(held={number: tuple(its) for number, its in held.items()}, fresh=tuple(fresh))


def open_alert(
    store: Store, group: RegressionGroup, *, messages: Mapping[str, str], now_ms: int, told: Told | None = None
) -> int | None:
    """Records an alert, what is told of it, and its message to each destination (destination -> payload), in one
    transaction.

    Returns its id, or None if another process has alerted all its regressions meanwhile: then nothing is sent.
    """
    with store.write(group.project, of_project=True) as connection:
        series = {one.series.key: one.change for one in group.regressions}
        rows = connection.execute(
            select(
                schema.series.c.id, schema.series.c.key, schema.series.c.project_id, schema.series.c.machine_id
            ).where(is_one_of(connection, schema.series.c.key, series))
        ).all()
        if not rows:
            return None
        owner, machine = rows[0].project_id, rows[0].machine_id
        commit_ids = commit_ids_of(
            connection, owner, [c for x in series.values() for c in (x.commit, x.previous_commit)]
        )
        membership = AlertMembership(connection, owner)
        fresh = [row for row in rows if membership.alert_of_change(row.key, series[row.key]) is None]
        if not fresh:
            return None
        alert = insert_alert(
            connection,
            {
                "project_id": owner,
                "machine_id": machine,
                "commit_id": commit_ids[group.commit.hash],
                "previous_commit_id": commit_ids[group.previous_commit.hash],
                "told": told and told.as_json(),
            },
            [
                {
                    "series_id": row.id,
                    "commit_id": commit_ids[change.commit.hash],
                    "place": change.index,
                    "magnitude": change.magnitude,
                    "low": change.low,
                    "high": change.high,
                }
                for row in fresh
                for change in [series[row.key]]
            ],
            now_ms=now_ms,
        )
        thread, number = (told.thread, told.messages) if told else (f"alert-{alert}", 1)
        outbox.queue_messages(connection, owner, thread, number, messages, now_ms=now_ms)
        return alert


def insert_alert(
    connection: Connection,
    place: Mapping[str, Any],
    series: Sequence[Mapping[str, Any]],
    *,
    now_ms: int,
    author: str | None = None,
) -> int:
    """Adds an open alert of series that no other alert holds, with its first event; returns its id."""
    values = {**place, "state": AlertState.OPEN.value, "opened_ms": now_ms}
    alert = int(connection.execute(insert(schema.alert).values(**values).returning(schema.alert.c.id)).scalar_one())
    insert_new(connection, schema.alert_series, [{**each, "alert_id": alert} for each in series])
    add_event(connection, alert, AlertState.OPEN, now_ms=now_ms, author=author)
    return alert


def alerts(
    store: Store, project: str, *, states: Sequence[AlertState] = tuple(AlertState), limit: int = 200
) -> tuple[Alert, ...]:
    """The project's alerts in any of the states, newest first."""
    table = schema.alert
    with store.read() as connection:
        owner = project_id(connection, project)
        if owner is None:
            return ()
        rows = connection.execute(
            _alert_rows(owner).where(table.c.state.in_([state.value for state in states])).limit(limit)
        ).all()
        return _records(connection, project, owner, rows)


def _alert_rows(owner: int) -> Select[Any]:
    """For `_records`, the newest first."""
    table = schema.alert
    return (
        select(table, schema.machine.c.name.label("machine_name"), schema.machine.c.findings)
        .join(schema.machine, schema.machine.c.id == table.c.machine_id)
        .where(table.c.project_id == owner)
        .order_by(table.c.opened_ms.desc(), table.c.id.desc())
    )


def alerts_by_id(connection: Connection, project: str, owner: int, ids: Iterable[int]) -> dict[int, Alert]:
    """Those of the alerts that are the project's."""
    table = schema.alert
    rows = connection.execute(_alert_rows(owner).where(is_among(connection, table.c.id, list(ids)))).all()
    return {alert.id: alert for alert in _records(connection, project, owner, rows)}


def _records(connection: Connection, project: str, owner: int, rows: Sequence[Row[Any]]) -> tuple[Alert, ...]:
    """Rows of the alert table with `machine_name`, as records in the same order."""
    known = workloads(connection, owner) if rows else Workloads()
    ids = [row.id for row in rows]
    said = schema.stated_change
    stated_rows = {
        row.alert_id: row for row in connection.execute(select(said).where(is_among(connection, said.c.alert_id, ids)))
    }
    its = commits_by_id(
        connection, (i for row in (*rows, *stated_rows.values()) for i in (row.commit_id, row.previous_commit_id))
    )
    stated = {
        number: StatedChange(
            commit=its[row.commit_id],
            previous_commit=its[row.previous_commit_id],
            author=row.author,
            at=_time(row.stated_ms),
        )
        for number, row in stated_rows.items()
    }
    part = schema.alert_series
    parts: dict[int, list[AlertedSeries]] = {}
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
        .where(is_among(connection, part.c.alert_id, ids))
    ):
        one = AlertedSeries(
            series=series_record(row, known),
            magnitude=row.magnitude,
            low=row.low,
            high=row.high,
            commit=row.hash,
            place=row.place,
            is_resolved=row.resolved,
            is_settled=row.is_judged and not row.stale,
        )
        parts.setdefault(row.alert_id, []).append(one)
    events = events_of(connection, ids)
    return tuple(
        Alert(
            id=row.id,
            project=project,
            machine=row.machine_name,
            commit=its[row.commit_id],
            previous_commit=its[row.previous_commit_id],
            state=AlertState(row.state),
            opened=_time(row.opened_ms),
            series=tuple(sorted(parts.get(row.id, ()), key=lambda one: -abs(one.magnitude))),
            events=tuple(events.get(row.id, ())),
            assignee=row.assignee,
            link=row.link,
            version=row.version,
            stated=stated.get(row.id),
            told=Told.from_json(row.told) if row.told else None,
            findings=row.findings,
        )
        for row in rows
    )


def _time(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def commit_ids_of(connection: Connection, owner: int, commits: Iterable[Commit]) -> dict[str, int]:
    """The ids of commits by their hashes."""
    table = schema.commit
    rows = connection.execute(
        select(table.c.hash, table.c.id).where(
            table.c.project_id == owner, is_one_of(connection, table.c.hash, {commit.hash for commit in commits})
        )
    )
    return {row.hash: row.id for row in rows}

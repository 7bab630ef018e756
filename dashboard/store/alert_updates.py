"""Updates of alerts by programs: current changes of series, further series, state, range and finding.

An update and its messages are one transaction; nothing is written if the alert has changed since it was read.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, select
from sqlalchemy import update as sql_update

from ..model.alert import Alert, AlertState, EventKind, HealthAlert, HealthFinding, LastNotification, RegressionAlert
from ..model.changepoint import Regression
from ..model.series import Commit
from . import schema
from .alert_opening import add_event
from .engine import Store
from .mappers import commit_ids, project_id
from .outbox import queue_messages
from .statements import id_in, insert_new, is_one_of


@dataclass(frozen=True, slots=True, kw_only=True)
class RegressionUpdate:
    """The current findings of a regression alert.

    Without `notified` no message reports them, and the stored magnitudes stay those of the newest message.
    """

    held: tuple[Regression, ...]  # current changes of its series, and of those that join it
    resolved: frozenset[str]  # keys of its series whose level is back, or whose change is no longer found
    state: AlertState | None = None  # the new state; None: unchanged
    between: tuple[Commit, Commit] | None = None  # the last good and the first bad commit; None: unchanged
    notified: LastNotification | None = None
    note: str | None = None

    def changes(self, alert: RegressionAlert) -> bool:
        """Whether there is anything to write."""
        if self.state is not None or self.between is not None or self.notified is not None:
            return True
        known = {one.series.key: one for one in alert.series}
        return any(
            (mine := known.get(one.series.key)) is None
            or (mine.commit, mine.place) != (one.change.commit.hash, one.change.index)
            for one in self.held
        ) or any(one.is_resolved != (one.series.key in self.resolved) for one in alert.series)


def update_regression_alert(
    store: Store, alert: RegressionAlert, update: RegressionUpdate, *, messages: Mapping[str, str], now_ms: int
) -> bool:
    """Write an update with its messages (destination -> payload); False if the alert has changed since it was read."""
    if not update.changes(alert):
        return True
    with store.write(alert.project, of_project=True) as connection:
        owner = _owner_of_unchanged(connection, alert)
        if owner is None:
            return False
        if update.state is AlertState.RESOLVED and not _is_as_read(connection, alert):
            return False  # a running analysis may still find the change
        _follow(connection, owner, alert, update)
        values: dict[str, Any] = {}
        if update.between is not None:
            ids = commit_ids(connection, owner, [each.hash for each in update.between])
            previous, commit = (ids[each.hash] for each in update.between)
            values |= {"previous_commit_id": previous, "commit_id": commit}
        if update.notified is not None:
            values["notified"] = update.notified.as_json()
        if update.state is not None or update.notified is not None:
            _write(connection, alert, owner, values, update.state, update.note, messages, now_ms)
        elif values:
            connection.execute(sql_update(schema.alert).where(schema.alert.c.id == alert.id).values(**values))
        return True


def update_health_alert(
    store: Store, alert: HealthAlert, finding: HealthFinding | None, *, messages: Mapping[str, str], now_ms: int
) -> bool:
    """Write the current finding, or resolve the alert without one, with its messages (destination -> payload).

    False if the alert has changed since it was read.
    """
    with store.write(alert.project, of_project=True) as connection:
        owner = _owner_of_unchanged(connection, alert)
        if owner is None:
            return False
        state = AlertState.RESOLVED if finding is None else None
        values: dict[str, Any] = {} if finding is None else {"finding": finding.as_json()}
        note = finding.summary if finding is not None else None
        _write(connection, alert, owner, values, state, note, messages, now_ms)
        return True


def _owner_of_unchanged(connection: Connection, alert: Alert) -> int | None:
    """The project's id; None if the alert has changed since it was read, or is gone."""
    table = schema.alert
    unchanged = connection.execute(
        select(table.c.project_id).where(table.c.id == alert.id, table.c.version == alert.version)
    ).scalar()
    return unchanged if unchanged == project_id(connection, alert.project) else None


def _write(
    connection: Connection,
    alert: Alert,
    owner: int,
    values: Mapping[str, Any],
    state: AlertState | None,
    note: str | None,
    messages: Mapping[str, str],
    now_ms: int,
) -> None:
    """Write the columns, an event of the state or update, and the messages."""
    kind = EventKind.UPDATED if state is None else EventKind.STATE
    state = state or alert.state
    add_event(connection, alert.id, state, now_ms=now_ms, author=None, note=note, kind=kind)
    number = alert.messages + bool(messages)
    common = {"state": state.value, "version": alert.version + 1, "messages": number}
    connection.execute(sql_update(schema.alert).where(schema.alert.c.id == alert.id).values(**common, **values))
    queue_messages(connection, owner, alert.thread, number, messages, now_ms=now_ms)


def _is_as_read(connection: Connection, alert: RegressionAlert) -> bool:
    """Whether nothing of the alert's machine was imported or analysed since it was read."""
    series, machine, part = schema.series, schema.machine, schema.alert_series
    stale = connection.execute(
        select(series.c.id)
        .join(part, part.c.series_id == series.c.id)
        .where(part.c.alert_id == alert.id, series.c.stale)
    ).first()
    findings, judged = connection.execute(
        select(machine.c.findings, machine.c.judged)
        .join(schema.alert, schema.alert.c.machine_id == machine.c.id)
        .where(schema.alert.c.id == alert.id)
    ).one()
    return stale is None and findings == judged == alert.findings


def _follow(connection: Connection, owner: int, alert: RegressionAlert, update: RegressionUpdate) -> None:
    """Move the alert's series to their current changes, and add further series."""
    part, series = schema.alert_series, schema.series
    held = {one.series.key: one for one in update.held}
    is_held = is_one_of(connection, series.c.key, held)
    ids = {row.key: row.id for row in connection.execute(select(series.c.key, series.c.id).where(is_held))}
    commits = commit_ids(connection, owner, {one.change.commit.hash for one in held.values()})
    rows: dict[str, list[Row[Any]]] = {}
    for row in connection.execute(
        select(part, series.c.key).join(series, series.c.id == part.c.series_id).where(part.c.alert_id == alert.id)
    ):
        rows.setdefault(row.key, []).append(row)
    taken = {
        tuple(row)
        for row in connection.execute(
            select(part.c.series_id, part.c.commit_id).where(id_in(connection, part.c.series_id, ids.values()))
        )
    }
    joining = []
    for key, one in held.items():
        if key not in ids:
            continue
        change, pair = one.change, (ids[key], commits[one.change.commit.hash])
        size = {"magnitude": change.magnitude, "low": change.ci_low, "high": change.ci_high}
        if key not in rows:
            joining.append(
                {"series_id": pair[0], "commit_id": pair[1], "alert_id": alert.id, "place": change.index, **size}
            )
            continue
        distances = [abs(row.place - change.index) for row in rows[key]]
        row = rows[key][distances.index(min(distances))]
        values: dict[str, Any] = {"place": change.index}
        if pair not in taken:
            values["commit_id"] = pair[1]
        if update.notified is not None:
            values |= size
        connection.execute(
            sql_update(part)
            .where(part.c.series_id == row.series_id, part.c.commit_id == row.commit_id)
            .values(**values)
        )
    insert_new(connection, part, joining)
    for key, own in rows.items():
        if any(row.resolved != (key in update.resolved) for row in own):
            connection.execute(
                sql_update(part)
                .where(part.c.alert_id == alert.id, part.c.series_id == own[0].series_id)
                .values(resolved=key in update.resolved)
            )

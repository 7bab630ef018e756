"""How an alert goes on: its series are followed, others join, and its state, its range and what was told of it move.

All of one step and its messages are one transaction, and nothing is done if somebody changed the alert meanwhile.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, select, update

from ..model.alert import Alert, AlertState, EventKind, Told
from ..model.changepoint import Regression
from ..model.series import Commit
from . import schema
from .alerts import add_event, commit_ids_of
from .engine import Store
from .mappers import project_id
from .outbox import queue_messages
from .statements import insert_new, is_among, is_one_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """What is found of an alert. Without `told` no message goes out, and the magnitudes stay those that were told."""

    held: tuple[Regression, ...]  # what the detector tells of its series now, and of those that join it
    resolved: frozenset[str]  # keys of its series whose level is back, or of which nothing is told any more
    state: AlertState | None = None  # another one than it has
    between: tuple[Commit, Commit] | None = None  # the last good and the first bad commit, where they are others now
    told: Told | None = None
    note: str | None = None

    def changes(self, alert: Alert) -> bool:
        """Whether there is anything to write."""
        if self.state is not None or self.between is not None or self.told is not None:
            return True
        known = {one.series.key: one for one in alert.series}
        return any(
            (its := known.get(one.series.key)) is None
            or (its.commit, its.place) != (one.change.commit.hash, one.change.index)
            for one in self.held
        ) or any(its.is_resolved != (its.series.key in self.resolved) for its in alert.series)


def go_on(store: Store, alert: Alert, progress: Progress, *, messages: Mapping[str, str], now_ms: int) -> bool:
    """Writes a step of an alert with its messages (destination -> payload). False if it is not as it was read."""
    if not progress.changes(alert):
        return True
    with store.write(alert.project, of_project=True) as connection:
        owner = project_id(connection, alert.project)
        table = schema.alert
        now = connection.execute(
            select(table.c.id).where(table.c.id == alert.id, table.c.version == alert.version)
        ).scalar()
        if owner is None or now is None:
            return False
        if progress.state is AlertState.RESOLVED and not _is_as_read(connection, alert):
            return False  # what is not told at this moment may be told in the next
        _follow(connection, owner, alert, progress)
        values: dict[str, Any] = {}
        if progress.between is not None:
            ids = commit_ids_of(connection, owner, progress.between)
            previous, commit = (ids[each.hash] for each in progress.between)
            values |= {"previous_commit_id": previous, "commit_id": commit}
        if progress.told is not None:
            values["told"] = progress.told.as_json()
        if progress.state is not None:
            values["state"] = progress.state.value
        if progress.state is not None or progress.told is not None:
            values["version"] = table.c.version + 1
            kind = EventKind.STATE if progress.state is not None else EventKind.UPDATED
            state = progress.state or alert.state
            add_event(connection, alert.id, state, now_ms=now_ms, author=None, note=progress.note, kind=kind)
        if values:
            connection.execute(update(table).where(table.c.id == alert.id).values(**values))
        if progress.told is not None:
            queue_messages(connection, owner, progress.told.thread, progress.told.messages, messages, now_ms=now_ms)
        return True


def _is_as_read(connection: Connection, alert: Alert) -> bool:
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


def _follow(connection: Connection, owner: int, alert: Alert, progress: Progress) -> None:
    """Puts the alert's series where the detector has their change now, and adds those that join."""
    part, series = schema.alert_series, schema.series
    held = {one.series.key: one for one in progress.held}
    mine = is_one_of(connection, series.c.key, held)
    ids = {row.key: row.id for row in connection.execute(select(series.c.key, series.c.id).where(mine))}
    commits = commit_ids_of(connection, owner, (one.change.commit for one in held.values()))
    rows: dict[str, list[Row[Any]]] = {}
    for row in connection.execute(
        select(part, series.c.key).join(series, series.c.id == part.c.series_id).where(part.c.alert_id == alert.id)
    ):
        rows.setdefault(row.key, []).append(row)
    taken = {
        tuple(row)
        for row in connection.execute(
            select(part.c.series_id, part.c.commit_id).where(is_among(connection, part.c.series_id, ids.values()))
        )
    }
    joining = []
    for key, one in held.items():
        if key not in ids:
            continue
        change, place = one.change, (ids[key], commits[one.change.commit.hash])
        size = {"magnitude": change.magnitude, "low": change.low, "high": change.high}
        if key not in rows:
            joining.append(
                {"series_id": place[0], "commit_id": place[1], "alert_id": alert.id, "place": change.index, **size}
            )
            continue
        distances = [abs(row.place - change.index) for row in rows[key]]
        row = rows[key][distances.index(min(distances))]
        values: dict[str, Any] = {"place": change.index}
        if place not in taken:
            values["commit_id"] = place[1]
        if progress.told is not None:
            values |= size
        connection.execute(
            update(part).where(part.c.series_id == row.series_id, part.c.commit_id == row.commit_id).values(**values)
        )
    insert_new(connection, part, joining)
    for key, its in rows.items():
        if any(row.resolved != (key in progress.resolved) for row in its):
            connection.execute(
                update(part)
                .where(part.c.alert_id == alert.id, part.c.series_id == its[0].series_id)
                .values(resolved=key in progress.resolved)
            )

"""Triage: people's decisions on regressions and health alerts.

A decision applies to items as a person saw them. If one of them has changed since, nothing is done, and the error names
the last event. A regression without an alert gets one, without a message.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from sqlalchemy import Connection, Row, delete, select, update

from ..model.alert import AlertKind, AlertState, EventKind, ItemVersion
from ..model.result_file import storable
from . import schema
from .alert_opening import add_event, insert_alert
from .engine import Store
from .mappers import project_id
from .points import read_points
from .queries.triage_items import IndexedItem, ItemSeries, triage_index
from .statements import id_in, insert_or_replace

MOST_TEXT, MOST_LINE = 10_000, 500  # characters of a note; of a name or an address
_ALERT_KEY = re.compile(r"alert-([0-9]{1,9})")
_MOST_SERIES = 50  # of an item, whose commits a change may be moved to


class ChangedMeanwhileError(Exception):
    """An item has changed since it was seen; the message names the last event."""


class NoMeasuredCommitError(Exception):
    """No measured commit to move a change to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Changes to an alert; None keeps a field, an empty text clears it."""

    state: AlertState | None = None
    note: str | None = None
    assignee: str | None = None
    link: str | None = None
    move: int = 0  # -1: one measured commit earlier; 1: one later

    def __post_init__(self) -> None:
        for name, most in (("note", MOST_TEXT), ("assignee", MOST_LINE), ("link", MOST_LINE)):
            text = getattr(self, name)
            if text is not None and (len(text) > most or not storable(text)):
                raise ValueError(f"The {name} is longer than {most:,} characters, or contains control characters.")
        if self.link and not is_web_address(self.link):
            raise ValueError("A link must begin with http:// or https:// and name a host.")
        if self.move not in (-1, 0, 1):
            raise ValueError("A change can be moved by one commit at a time.")


def is_web_address(text: str) -> bool:
    """Whether the text is an http or https URL with a host, safe as a link."""
    try:
        parts = urlsplit(text.strip())
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and not any(c.isspace() for c in text.strip())
    except ValueError:
        return False


def triage(
    store: Store, project: str, seen: Sequence[ItemVersion], decision: Decision, *, author: str, now_ms: int
) -> tuple[int, ...]:
    """Apply the decision to all of the items, or to none; return the ids of their alerts.

    Raises ChangedMeanwhileError, NoMeasuredCommitError for a move beyond the measured commits, and ValueError for an
    empty decision on a regression without an alert, and for resolving or moving a health alert.
    """
    with store.write(project, of_project=True) as connection:
        owner = project_id(connection, project)
        if not owner:
            raise ChangedMeanwhileError(f"Project “{project}” no longer exists.")
        health = _health_rows(connection, owner, seen)
        regressions: dict[str, IndexedItem] = {}
        if any(each.key not in health for each in seen):
            regressions = {item.seen.key: item for item in triage_index(connection, owner).items}
        for each in seen:
            _require_unchanged(connection, each, health.get(each.key), regressions.get(each.key))
        if health and (decision.state is AlertState.RESOLVED or decision.move):
            raise ValueError("A health alert resolves by itself, and has no commit.")
        is_empty = not (decision.state or decision.note or decision.assignee or decision.link or decision.move)
        if is_empty and any(regressions[each.key].alert is None for each in seen if each.key in regressions):
            raise ValueError("The form is empty: choose a state, or enter a note, an assignee or a link.")
        alerts = []
        for each in seen:
            item = regressions.get(each.key)
            if item is None:
                alert = int(health[each.key].id)
            else:
                alert = item.alert if item.alert is not None else _open(connection, owner, item, author, now_ms)
            _decide(connection, alert, item, decision, author, now_ms)
            alerts.append(alert)
        return tuple(alerts)


def _health_rows(connection: Connection, owner: int, seen: Sequence[ItemVersion]) -> dict[str, Row[Any]]:
    """The health alerts among the items, by key."""
    table = schema.alert
    keys = [_ALERT_KEY.fullmatch(each.key) for each in seen]
    rows = connection.execute(
        select(table).where(
            table.c.project_id == owner,
            table.c.kind != AlertKind.REGRESSION.value,
            id_in(connection, table.c.id, [int(key[1]) for key in keys if key]),
        )
    )
    return {f"alert-{row.id}": row for row in rows}


def _require_unchanged(
    connection: Connection, seen: ItemVersion, health: Row[Any] | None, regression: IndexedItem | None
) -> None:
    """Raise ChangedMeanwhileError if the item has changed since it was seen."""
    if health is not None:
        is_resolved = health.state == AlertState.RESOLVED
        unchanged, alert, state = str(health.version) == seen.version and not is_resolved, health.id, health.state
    elif regression is not None:
        unchanged, alert, state = regression.seen == seen, regression.alert, regression.state.value
    else:
        unchanged, alert, state = False, None, ""
    if unchanged:
        return
    if alert is None:
        raise ChangedMeanwhileError("The item has changed since you saw it: it was triaged, or analysed again.")
    raise ChangedMeanwhileError(f"{_last_event(connection, alert)} since you saw it; it is “{state}” now.")


def _open(connection: Connection, owner: int, item: IndexedItem, author: str, now_ms: int) -> int:
    return insert_alert(
        connection,
        {
            "project_id": owner,
            "machine_id": item.machine_id,
            "kind": AlertKind.REGRESSION.value,
            "commit_id": item.commit_id,
            "previous_commit_id": item.previous_commit_id,
        },
        [
            {
                "series_id": one.series_id,
                "commit_id": one.commit_id,
                "place": one.place,
                "magnitude": one.magnitude,
                "low": one.low,
                "high": one.high,
            }
            for one in item.matching
        ],
        now_ms=now_ms,
        author=author,
    )


def _last_event(connection: Connection, alert: int) -> str:
    """The last event of an alert as a clause: "Ada set it to “expected”"."""
    events = schema.alert_event
    last = connection.execute(
        select(events).where(events.c.alert_id == alert).order_by(events.c.id.desc()).limit(1)
    ).one()
    action = {
        EventKind.STATE: f"set it to “{last.state}”",
        EventKind.ASSIGNED: f"assigned it to {last.detail}" if last.detail else "removed its assignee",
        EventKind.LINKED: "changed its link",
        EventKind.NOTED: "added a note",
        EventKind.MOVED: "moved its commit",
        EventKind.UPDATED: "updated it",
    }[EventKind(last.kind)]
    return f"{last.author or 'A program'} {action}"


def _decide(
    connection: Connection, alert: int, item: IndexedItem | None, decision: Decision, author: str, now_ms: int
) -> None:
    """Apply the decision to an alert; `item` is None for a health alert."""
    before = connection.execute(select(schema.alert).where(schema.alert.c.id == alert)).one()
    changes = _changes(before, decision)
    if decision.move and item is not None:
        commit_hash = _move(connection, alert, item, decision.move, author, now_ms)
        changes.append(_Change(kind=EventKind.MOVED, detail=commit_hash))
    _write(connection, before, changes, decision.note, author, now_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Change:
    """One event of a decision, and the columns of the alert that it sets."""

    kind: EventKind
    detail: str | None = None
    values: dict[str, Any] = field(default_factory=dict)


def _changes(before: Row[Any], decision: Decision) -> list[_Change]:
    """The decision's changes of state, assignee and link."""
    changes = []
    if decision.state not in (None, before.state):
        changes.append(_Change(kind=EventKind.STATE, values={"state": decision.state.value}))
    for name, kind in (("assignee", EventKind.ASSIGNED), ("link", EventKind.LINKED)):
        text = getattr(decision, name)
        if text is not None and (text.strip() or None) != getattr(before, name):
            changes.append(_Change(kind=kind, detail=text.strip() or None, values={name: text.strip() or None}))
    return changes


def _write(
    connection: Connection, before: Row[Any], changes: Sequence[_Change], note: str | None, author: str, now_ms: int
) -> None:
    """Write the changes, each with an event; the first event has the note."""
    note = (note or "").strip() or None
    changes = changes or ([_Change(kind=EventKind.NOTED)] if note else [])
    if not changes:
        return
    table = schema.alert
    values = {name: value for change in changes for name, value in change.values.items()}
    state = AlertState(values.get("state", before.state))
    for number, change in enumerate(changes):
        add_event(
            connection,
            before.id,
            state,
            now_ms=now_ms,
            author=author,
            note=None if number else note,
            kind=change.kind,
            detail=change.detail,
        )
    connection.execute(update(table).where(table.c.id == before.id).values(version=table.c.version + 1, **values))


def _move(connection: Connection, alert: int, item: IndexedItem, by: int, author: str, now_ms: int) -> str:
    """State the measured commit before (-1) or after (1) the current one as the cause; return its hash.

    Moving back to the detector's commit removes the statement.
    """
    table = schema.stated_change
    stated = connection.execute(select(table).where(table.c.alert_id == alert)).one_or_none()
    measured = _measured(connection, item)
    current = stated.commit_id if stated is not None else item.commit_id
    index = next((n for n, row in enumerate(measured) if row.id == current), None)
    if index is None or not 1 <= index + by < len(measured):
        raise NoMeasuredCommitError(
            f"There is no measured commit {'before' if by < 0 else 'after'} this one to move to."
        )
    target = measured[index + by]
    if target.id == item.commit_id:
        connection.execute(delete(table).where(table.c.alert_id == alert))
    else:
        row = {
            "alert_id": alert,
            "commit_id": target.id,
            "previous_commit_id": measured[index + by - 1].id,
            "author": author,
            "stated_ms": now_ms,
        }
        insert_or_replace(connection, table, [row])
    return str(target.hash)


def _measured(connection: Connection, item: IndexedItem) -> Sequence[Any]:
    """The measured commits of the item's series, in order, with the item's own commit."""
    largest = sorted(item.matching, key=ItemSeries.order)[:_MOST_SERIES]
    points = read_points(connection, [one.series_id for one in largest])
    ids = {item.commit_id} | {
        int(commit) for each in points.values() for commit in each.commit[each.value == each.value]
    }
    table = schema.commit
    in_order = (table.c.position.nulls_last(), table.c.date_ms, table.c.id)
    return connection.execute(
        select(table.c.id, table.c.hash).where(id_in(connection, table.c.id, ids)).order_by(*in_order)
    ).all()

"""Triage: people's decisions on regressions and health alerts.

A decision applies to items as somebody saw them. If one of them has changed since, nothing is done, and the later of
two people reads what the other did. A regression without an alert gets one, and no message is sent: whoever triages it
knows.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from sqlalchemy import Connection, Row, delete, select, update

from ..model.alert import AlertKind, AlertState, EventKind
from ..model.result_file import storable
from ..model.triage_item import ItemVersion
from . import schema
from .alert_opening import add_event, insert_alert
from .engine import Store
from .mappers import project_id
from .points import read_points
from .queries.triage_index import Found, Outline, card_index
from .statements import insert_or_replace, is_among

MOST_TEXT, MOST_LINE = 10_000, 500  # characters of a note; of a name or an address
_ALERT_KEY = re.compile(r"alert-([0-9]{1,9})")
_MOST_SERIES = 50  # of an item, whose commits a change may be moved to


class ChangedMeanwhileError(Exception):
    """An alert is not as it was seen; the message says what happened to it."""


class NoSuchPlaceError(Exception):
    """There is no measured commit to move a change to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What to change; None leaves a field as it is, an empty text removes it."""

    state: AlertState | None = None
    note: str | None = None
    assignee: str | None = None
    link: str | None = None
    move: int = 0  # -1: one measured commit earlier; 1: one later

    def __post_init__(self) -> None:
        for name, most in (("note", MOST_TEXT), ("assignee", MOST_LINE), ("link", MOST_LINE)):
            text = getattr(self, name)
            if text is not None and (len(text) > most or not storable(text)):
                raise ValueError(f"The {name} is longer than {most:,} characters, or holds a character of no text.")
        if self.link and not is_web_address(self.link):
            raise ValueError("A link begins with http:// or https:// and names a host.")
        if self.move not in (-1, 0, 1):
            raise ValueError("A change is moved by one commit at a time.")


def is_web_address(text: str) -> bool:
    """Whether it may stand in a link: of the web, and not of a script."""
    try:
        parts = urlsplit(text.strip())
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and not any(c.isspace() for c in text.strip())
    except ValueError:
        return False


def triage(
    store: Store, project: str, seen: Sequence[ItemVersion], decision: Decision, *, author: str, now_ms: int
) -> tuple[int, ...]:
    """Applies the decision to all of these items, or to none; returns the ids of their alerts.

    Raises ChangedMeanwhileError, NoSuchPlaceError for a move beyond what was measured, and ValueError for an empty
    decision on a regression without an alert and for what a health alert does not have: it resolves by itself, and has
    no commit.
    """
    with store.write(project, of_project=True) as connection:
        owner = project_id(connection, project)
        if owner is None:
            raise ChangedMeanwhileError(f"There is no project named “{project}” any more.")
        health = _health_rows(connection, owner, seen)
        regressions: dict[str, Outline] = {}
        if any(each.key not in health for each in seen):
            regressions = {one.seen.key: one for one in card_index(connection, owner).outlines}
        for each in seen:
            _require_unchanged(connection, each, health.get(each.key), regressions.get(each.key))
        if health and (decision.state is AlertState.RESOLVED or decision.move):
            raise ValueError("A health alert resolves by itself, and has no commit.")
        is_empty = not (decision.state or decision.note or decision.assignee or decision.link or decision.move)
        if is_empty and any(regressions[each.key].alert is None for each in seen if each.key in regressions):
            raise ValueError("Nothing was said: choose a state, or write a note, an assignee or a link.")
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
    """The health alerts among the items, by their keys."""
    table = schema.alert
    keys = [_ALERT_KEY.fullmatch(each.key) for each in seen]
    rows = connection.execute(
        select(table).where(
            table.c.project_id == owner,
            table.c.kind != AlertKind.REGRESSION.value,
            is_among(connection, table.c.id, [int(key[1]) for key in keys if key]),
        )
    )
    return {f"alert-{row.id}": row for row in rows}


def _require_unchanged(
    connection: Connection, seen: ItemVersion, health: Row[Any] | None, regression: Outline | None
) -> None:
    """Raises ChangedMeanwhileError if the item is not as it was seen."""
    if health is not None:
        is_resolved = health.state == AlertState.RESOLVED
        unchanged, alert, state = str(health.version) == seen.version and not is_resolved, health.id, health.state
    elif regression is not None:
        unchanged, alert, state = regression.seen == seen, regression.alert, regression.standing.value
    else:
        unchanged, alert, state = False, None, ""
    if unchanged:
        return
    if alert is None:
        raise ChangedMeanwhileError(
            "The item is not as you saw it any more: somebody has triaged it, or it was analysed again."
        )
    raise ChangedMeanwhileError(f"{_last_event(connection, alert)} since you saw it; it is “{state}” now.")


def _open(connection: Connection, owner: int, item: Outline, author: str, now_ms: int) -> int:
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
    """Who did what last, as a clause: "Ada set it to “expected”"."""
    events = schema.alert_event
    last = connection.execute(
        select(events).where(events.c.alert_id == alert).order_by(events.c.id.desc()).limit(1)
    ).one()
    did = {
        EventKind.STATE: f"set it to “{last.state}”",
        EventKind.ASSIGNED: f"gave it to {last.detail}" if last.detail else "took it off its assignee",
        EventKind.LINKED: "changed its link",
        EventKind.NOTED: "added a note",
        EventKind.MOVED: "moved its commit",
        EventKind.UPDATED: "updated it",
    }[EventKind(last.kind)]
    return f"{last.author or 'A program'} {did}"


def _decide(
    connection: Connection, alert: int, item: Outline | None, decision: Decision, author: str, now_ms: int
) -> None:
    """Applies the decision to an alert; `item` is None for a health alert."""
    before = connection.execute(select(schema.alert).where(schema.alert.c.id == alert)).one()
    changes = _changes(before, decision)
    if decision.move and item is not None:
        there = _move(connection, alert, item, decision.move, author, now_ms)
        changes.append(_Change(kind=EventKind.MOVED, detail=there))
    _write(connection, before, changes, decision.note, author, now_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Change:
    """One event of a decision, and the columns of the alert that it sets."""

    kind: EventKind
    detail: str | None = None
    values: dict[str, Any] = field(default_factory=dict)


def _changes(before: Row[Any], decision: Decision) -> list[_Change]:
    """What the decision changes in an alert's row: its state, its assignee, its link."""
    found = []
    if decision.state not in (None, before.state):
        found.append(_Change(kind=EventKind.STATE, values={"state": decision.state.value}))
    for name, kind in (("assignee", EventKind.ASSIGNED), ("link", EventKind.LINKED)):
        text = getattr(decision, name)
        if text is not None and (text.strip() or None) != getattr(before, name):
            found.append(_Change(kind=kind, detail=text.strip() or None, values={name: text.strip() or None}))
    return found


def _write(
    connection: Connection, before: Row[Any], changes: Sequence[_Change], note: str | None, author: str, now_ms: int
) -> None:
    """Writes the changes, each with an event; the first event has the note."""
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


def _move(connection: Connection, alert: int, item: Outline, by: int, author: str, now_ms: int) -> str:
    """States the measured commit before (-1) or after (1) the current one as the cause; returns its hash.

    Moved back to the detector's commit, the statement is removed.
    """
    table = schema.stated_change
    stated = connection.execute(select(table).where(table.c.alert_id == alert)).one_or_none()
    measured = _measured(connection, item)
    now = stated.commit_id if stated is not None else item.commit_id
    place = next((n for n, row in enumerate(measured) if row.id == now), None)
    if place is None or not 1 <= place + by < len(measured):
        raise NoSuchPlaceError(
            "The commit cannot be moved " + ("earlier" if by < 0 else "later") + ": nothing is measured there."
        )
    there = measured[place + by]
    if there.id == item.commit_id:
        connection.execute(delete(table).where(table.c.alert_id == alert))
    else:
        row = {
            "alert_id": alert,
            "commit_id": there.id,
            "previous_commit_id": measured[place + by - 1].id,
            "author": author,
            "stated_ms": now_ms,
        }
        insert_or_replace(connection, table, [row])
    return str(there.hash)


def _measured(connection: Connection, item: Outline) -> Sequence[Any]:
    """The measured commits of the item's series, in order, with the item's own commit."""
    largest = sorted(item.matching, key=Found.order)[:_MOST_SERIES]
    points = read_points(connection, [one.series_id for one in largest])
    ids = {item.commit_id} | {
        int(commit) for each in points.values() for commit in each.commit[each.value == each.value]
    }
    table = schema.commit
    in_order = (table.c.position.nulls_last(), table.c.date_ms, table.c.id)
    return connection.execute(
        select(table.c.id, table.c.hash).where(is_among(connection, table.c.id, ids)).order_by(*in_order)
    ).all()

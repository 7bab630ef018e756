"""Triage: people's decisions on regressions and health alerts."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from sqlalchemy import Connection, Row, Table, delete, select, update

from ..model.alert import AlertState, EventKind
from ..model.result_file import storable
from ..model.triage_item import Seen
from . import schema
from .alerts import add_event, insert_alert
from .engine import Store
from .mappers import project_id
from .points import read_points
from .queries.triage_items import Found, Outline, card_index
from .statements import insert_or_replace, is_among

# What a person decides about an alert of either kind, and what that changes.

MOST_TEXT, MOST_LINE = 10_000, 500  # characters of a note; of a name or an address


class ChangedMeanwhileError(Exception):
    """An alert is not as it was seen; the message says what happened to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What to do; what is None stays as it is. Empty texts take off what is there."""

    state: AlertState | None = None
    note: str | None = None
    assignee: str | None = None
    link: str | None = None
    move: int = 0  # -1: the change came one measured commit earlier; 1: one later

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One thing that was decided: what is told of it, and the columns of the alert that it sets."""

    kind: EventKind
    detail: str | None = None
    values: dict[str, Any] = field(default_factory=dict)


def steps(before: Row[Any], decision: Decision) -> list[Step]:
    """What the decision changes about an alert's row: its state, its assignee, its link."""
    found = []
    if decision.state not in (None, before.state):
        found.append(Step(kind=EventKind.STATE, values={"state": decision.state.value}))
    for name, kind in (("assignee", EventKind.ASSIGNED), ("link", EventKind.LINKED)):
        said = getattr(decision, name)
        if said is not None and (said.strip() or None) != getattr(before, name):
            found.append(Step(kind=kind, detail=said.strip() or None, values={name: said.strip() or None}))
    return found


def carry_out(
    connection: Connection,
    table: Table,
    events: Table,
    before: Row[Any],
    changes: Sequence[Step],
    note: str | None,
    *,
    author: str,
    now_ms: int,
) -> None:
    """Does the steps with an alert, each an event of its history; the note stands at the first of them."""
    said = (note or "").strip() or None
    changes = changes or ([Step(kind=EventKind.NOTED)] if said else [])
    if not changes:
        return
    values = {name: value for step in changes for name, value in step.values.items()}
    after = AlertState(values.get("state", before.state))
    for step in changes:
        add_event(
            connection,
            before.id,
            after,
            now_ms=now_ms,
            author=author,
            note=said,
            kind=step.kind,
            detail=step.detail,
            table=events,
        )
        said = None
    connection.execute(update(table).where(table.c.id == before.id).values(version=table.c.version + 1, **values))


def last_word(connection: Connection, events: Table, alert: int) -> str:
    """Who did what with it last: "Ada set it to “expected”"."""
    last = connection.execute(
        select(events).where(events.c.alert_id == alert).order_by(events.c.id.desc()).limit(1)
    ).one()
    did = {
        EventKind.STATE: f"set it to “{last.state}”",
        EventKind.ASSIGNED: f"gave it to {last.detail}" if last.detail else "took it off its assignee",
        EventKind.LINKED: "changed its link",
        EventKind.NOTED: "added a note",
        EventKind.MOVED: "moved its commit",
        EventKind.UPDATED: "told more of it",
    }[EventKind(last.kind)]
    return f"{last.author or 'A program'} {did}"


# What people do with regressions: states, notes, whose it is, a link, and where they say that it came.
#
# A decision is about cards as somebody saw them. If one of them has changed since, nothing is done, and the later of
# two people reads what the other did. A card without an alert gets one, and no message goes out: whoever triages it
# knows.

_MOST_SERIES = 50  # of a card, whose commits a change may be moved to


class NoSuchPlaceError(Exception):
    """There is no measured commit to move a change to."""


def triage(
    store: Store, project: str, seen: Sequence[Seen], decision: Decision, *, author: str, now_ms: int
) -> tuple[int, ...]:
    """Does what was decided with all of these cards, or with none; returns their alerts' ids.

    Raises ChangedMeanwhileError, NoSuchPlaceError for a move beyond what was measured, and ValueError where nothing is
    said of a regression that nobody has triaged yet.
    """
    with store.write(project, of_project=True) as connection:
        owner = project_id(connection, project)
        if owner is None:
            raise ChangedMeanwhileError(f"There is no project named “{project}” any more.")
        outlines = {one.seen.key: one for one in card_index(connection, owner).outlines}
        found = [_unchanged(connection, outlines.get(each.key), each) for each in seen]
        says = decision.state or decision.note or decision.assignee or decision.link or decision.move
        if not says and any(one.alert is None for one in found):
            raise ValueError("Nothing was said: choose a state, or write a note, an assignee or a link.")
        alerts = []
        for one in found:
            alert = one.alert if one.alert is not None else _open(connection, owner, one, author, now_ms)
            _decide(connection, alert, one, decision, author, now_ms)
            alerts.append(alert)
        return tuple(alerts)


def _unchanged(connection: Connection, now: Outline | None, seen: Seen) -> Outline:
    if now is not None and now.seen == seen:
        return now
    if now is None or now.alert is None:
        raise ChangedMeanwhileError(
            "The regression is not as you saw it any more: somebody has triaged it, or it was analysed again."
        )
    did = last_word(connection, schema.alert_event, now.alert)
    raise ChangedMeanwhileError(f"{did} since you saw it; it is “{now.standing.value}” now.")


def _open(connection: Connection, owner: int, card: Outline, author: str, now_ms: int) -> int:
    return insert_alert(
        connection,
        {
            "project_id": owner,
            "machine_id": card.machine_id,
            "commit_id": card.commit_id,
            "previous_commit_id": card.previous_commit_id,
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
            for one in card.matching
        ],
        now_ms=now_ms,
        author=author,
    )


def _decide(connection: Connection, alert: int, card: Outline, decision: Decision, author: str, now_ms: int) -> None:
    before = connection.execute(select(schema.alert).where(schema.alert.c.id == alert)).one()
    changes = steps(before, decision)
    if decision.move:
        there = _move(connection, alert, card, decision.move, author, now_ms)
        changes.append(Step(kind=EventKind.MOVED, detail=there))
    carry_out(
        connection, schema.alert, schema.alert_event, before, changes, decision.note, author=author, now_ms=now_ms
    )


def _move(connection: Connection, alert: int, card: Outline, by: int, author: str, now_ms: int) -> str:
    """Notes the measured commit beside the one that the change is said to have come with; returns its hash.

    Moved back to where the alert has it, there is nothing to be said beside the detector any more.
    """
    table = schema.stated_change
    stated = connection.execute(select(table).where(table.c.alert_id == alert)).one_or_none()
    measured = _measured(connection, card)
    now = stated.commit_id if stated is not None else card.commit_id
    place = next((n for n, row in enumerate(measured) if row.id == now), None)
    if place is None or not 1 <= place + by < len(measured):
        raise NoSuchPlaceError(
            "The commit cannot be moved " + ("earlier" if by < 0 else "later") + ": nothing is measured there."
        )
    there = measured[place + by]
    if there.id == card.commit_id:
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


def _measured(connection: Connection, card: Outline) -> Sequence[Any]:
    """The commits with a number of the card's series, in order; the card's own is among them."""
    largest = sorted(card.matching, key=Found.order)[:_MOST_SERIES]
    points = read_points(connection, [one.series_id for one in largest])
    ids = {card.commit_id} | {
        int(commit) for each in points.values() for commit in each.commit[each.value == each.value]
    }
    table = schema.commit
    in_order = (table.c.position.nulls_last(), table.c.date_ms, table.c.id)
    return connection.execute(
        select(table.c.id, table.c.hash).where(is_among(connection, table.c.id, ids)).order_by(*in_order)
    ).all()


# What people do with alerts of the data itself: states, notes, whose they are, a link.
#
# They end by themselves, when nothing of them is found any more: nobody can say that it is over while it is not.


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenTrouble:
    """An alert of the data as somebody saw it."""

    id: int
    version: int


def triage_health(
    store: Store, project: str, seen: SeenTrouble, decision: Decision, *, author: str, now_ms: int
) -> None:
    """Does what was decided. Raises ChangedMeanwhileError, and ValueError for what cannot be said of such an alert."""
    if decision.state is AlertState.RESOLVED or decision.move:
        raise ValueError("A trouble of the data ends by itself, and comes with no commit.")
    table, events = schema.health_alert, schema.health_event
    with store.write(project, of_project=True) as connection:
        owner = project_id(connection, project)
        now = connection.execute(select(table).where(table.c.id == seen.id, table.c.project_id == owner)).one_or_none()
        if now is None:
            raise ChangedMeanwhileError("There is no such trouble of the data any more.")
        if now.version != seen.version or now.resolved_ms is not None:
            did = last_word(connection, events, now.id)
            raise ChangedMeanwhileError(f"{did} since you saw it; it is “{now.state}” now.")
        carry_out(connection, table, events, now, steps(now, decision), decision.note, author=author, now_ms=now_ms)

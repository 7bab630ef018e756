"""What a person decides about an alert of either kind, and what that changes."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from sqlalchemy import Connection, Row, Table, select, update

from warpwatch.dashboard.store.alert_events import add_event
from warpwatch.dashboard.store.alert_records import AlertState, EventKind
from warpwatch.dashboard.store.incoming import storable

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
    connection: Connection, table: Table, events: Table, before: Row[Any], changes: Sequence[Step], note: str | None,
    *, author: str, now_ms: int,
) -> None:  # fmt: skip
    """Does the steps with an alert, each an event of its history; the note stands at the first of them."""
    said = (note or "").strip() or None
    changes = changes or ([Step(kind=EventKind.NOTED)] if said else [])
    if not changes:
        return
    values = {name: value for step in changes for name, value in step.values.items()}
    after = AlertState(values.get("state", before.state))
    for step in changes:
        add_event(
            connection, before.id, after, now_ms=now_ms, author=author, note=said, kind=step.kind, detail=step.detail,
            table=events,
        )  # fmt: skip
        said = None
    connection.execute(update(table).where(table.c.id == before.id).values(version=table.c.version + 1, **values))


def last_word(connection: Connection, events: Table, alert: int) -> str:
    """Who did what with it last: "Ada set it to “expected”"."""
    last = connection.execute(
        select(events).where(events.c.alert_id == alert).order_by(events.c.id.desc()).limit(1)
    ).one()  # fmt: skip
    did = {
        EventKind.STATE: f"set it to “{last.state}”",
        EventKind.ASSIGNED: f"gave it to {last.detail}" if last.detail else "took it off its assignee",
        EventKind.LINKED: "changed its link",
        EventKind.NOTED: "added a note",
        EventKind.MOVED: "moved its commit",
        EventKind.UPDATED: "told more of it",
    }[EventKind(last.kind)]
    return f"{last.author or 'A program'} {did}"

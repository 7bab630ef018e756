"""What people do with regressions: states, notes, whose it is, a link, and where they say that it came.

A decision is about cards as somebody saw them. If one of them has changed since, nothing is done, and the later of two
people reads what the other did. A card without an alert gets one, and no message goes out: whoever triages it knows.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, delete, func, select

from warpwatch.dashboard.store import tables
from warpwatch.dashboard.store.alert_records import EventKind
from warpwatch.dashboard.store.alerts import insert_alert
from warpwatch.dashboard.store.card_records import Seen
from warpwatch.dashboard.store.choosing import is_among
from warpwatch.dashboard.store.deciding import ChangedMeanwhileError, Decision, Step, carry_out, last_word, steps
from warpwatch.dashboard.store.points import read_points
from warpwatch.dashboard.store.queries.card_index import Found, Outline, card_index
from warpwatch.dashboard.store.reading import project_id
from warpwatch.dashboard.store.rows import insert_or_replace
from warpwatch.dashboard.store.store import Store

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
    did = last_word(connection, tables.alert_event, now.alert)
    raise ChangedMeanwhileError(f"{did} since you saw it; it is “{now.standing.value}” now.")


def _open(connection: Connection, owner: int, card: Outline, author: str, now_ms: int) -> int:
    return insert_alert(
        connection,
        {"project_id": owner, "machine_id": card.machine_id, "commit_id": card.commit_id,
         "previous_commit_id": card.previous_commit_id},
        [
            {"series_id": one.series_id, "commit_id": one.commit_id, "place": one.place, "magnitude": one.magnitude,
             "low": one.low, "high": one.high}
            for one in card.matching
        ],
        now_ms=now_ms,
        author=author,
    )  # fmt: skip


def _decide(
    connection: Connection, alert: int, card: Outline, decision: Decision, author: str, now_ms: int
) -> None:  # fmt: skip
    before = connection.execute(select(tables.alert).where(tables.alert.c.id == alert)).one()
    changes = steps(before, decision)
    if decision.move:
        there = _move(connection, alert, card, decision.move, author, now_ms)
        changes.append(Step(kind=EventKind.MOVED, detail=there))
    carry_out(
        connection, tables.alert, tables.alert_event, before, changes, decision.note, author=author, now_ms=now_ms
    )  # fmt: skip


def _move(connection: Connection, alert: int, card: Outline, by: int, author: str, now_ms: int) -> str:
    """Notes the measured commit beside the one that the change is said to have come with; returns its hash.

    Moved back to where the alert has it, there is nothing to be said beside the detector any more.
    """
    table = tables.stated_change
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
        row = {"alert_id": alert, "commit_id": there.id, "previous_commit_id": measured[place + by - 1].id,
               "author": author, "stated_ms": now_ms}  # fmt: skip
        insert_or_replace(connection, table, [row])
    return str(there.hash)


def _measured(connection: Connection, card: Outline) -> Sequence[Any]:
    """The commits with a number of the card's series, in order; the card's own is among them."""
    largest = sorted(card.matching, key=Found.order)[:_MOST_SERIES]
    points = read_points(connection, [one.series_id for one in largest])
    ids = {card.commit_id} | {
        int(commit) for each in points.values() for commit in each.commit[each.value == each.value]
    }  # fmt: skip
    table = tables.commit
    in_order = (func.coalesce(table.c.position, 2**31 - 1), table.c.date_ms, table.c.id)
    return connection.execute(
        select(table.c.id, table.c.hash).where(is_among(connection, table.c.id, ids)).order_by(*in_order)
    ).all()

"""What people do with alerts of the data itself: states, notes, whose they are, a link.

They end by themselves, when nothing of them is found any more: nobody can say that it is over while it is not.
"""

from dataclasses import dataclass

from sqlalchemy import select

from warpwatch.dashboard.store import tables
from warpwatch.dashboard.store.alert_records import AlertState
from warpwatch.dashboard.store.deciding import ChangedMeanwhileError, Decision, carry_out, last_word, steps
from warpwatch.dashboard.store.reading import project_id
from warpwatch.dashboard.store.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenTrouble:
    """An alert of the data as somebody saw it."""

    id: int
    version: int


def triage_health(
    store: Store, project: str, seen: SeenTrouble, decision: Decision, *, author: str, now_ms: int
) -> None:  # fmt: skip
    """Does what was decided. Raises ChangedMeanwhileError, and ValueError for what cannot be said of such an alert."""
    if decision.state is AlertState.RESOLVED or decision.move:
        raise ValueError("A trouble of the data ends by itself, and comes with no commit.")
    table, events = tables.health_alert, tables.health_event
    with store.write(project, of_project=True) as connection:
        owner = project_id(connection, project)
        now = connection.execute(select(table).where(table.c.id == seen.id, table.c.project_id == owner)).one_or_none()
        if now is None:
            raise ChangedMeanwhileError("There is no such trouble of the data any more.")
        if now.version != seen.version or now.resolved_ms is not None:
            did = last_word(connection, events, now.id)
            raise ChangedMeanwhileError(f"{did} since you saw it; it is “{now.state}” now.")
        carry_out(
            connection, table, events, now, steps(now, decision), decision.note, author=author, now_ms=now_ms
        )  # fmt: skip

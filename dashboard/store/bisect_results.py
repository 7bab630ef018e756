"""Record a bisect's result as a note on the commit and as the stated culprit of the alerts."""

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import Connection, select, update

from ..model.alert import AlertState, EventKind
from ..model.verdict import ChangeKind
from . import schema
from .alert_opening import add_event
from .engine import Store
from .mappers import project_id
from .notes import add_annotation, annotations
from .statements import insert_or_replace

AUTHOR = "warpwatch bisect"


@dataclass(frozen=True, slots=True, kw_only=True)
class Culprit:
    """A commit found by a bisect, by full hashes of commits with results."""

    commit: str
    previous: str  # the newest measured commit before it, which is good
    confidence: str  # "99.4 %"


@dataclass(frozen=True, slots=True, kw_only=True)
class BisectResult:
    """Result of a bisect of a series (key) between two commits."""

    series: str
    good: str
    bad: str
    summary: str  # a sentence
    culprit: Culprit | None  # None: not found


def record_bisect(store: Store, project: str, bisected: BisectResult, *, now_ms: int) -> tuple[int, ...]:
    """Add a note to the culprit and to the open alerts of the series with a change in the range; return these alerts.

    The alerts get the culprit as their stated change, unless a person stated another. Raises NothingToAnnotateError if
    a commit has no results.
    """
    culprit = bisected.culprit
    if culprit is not None:
        notes = annotations(store, project, commit=culprit.commit)
        if (bisected.series, AUTHOR, bisected.summary) not in [(each.series, each.author, each.text) for each in notes]:
            add_annotation(
                store,
                project,
                culprit.commit,
                series=bisected.series,
                author=AUTHOR,
                text=bisected.summary,
                now_ms=now_ms,
            )
    with store.write(project, of_project=True) as connection:
        alerts = _alerts_between(connection, project, bisected)
        for alert, state in alerts:
            _update_alert(connection, project, alert, state, bisected, now_ms)
            _follow(connection, project, alert, bisected)
    return tuple(alert for alert, _ in alerts)


def bisected_alerts(store: Store, alerts: Collection[int]) -> frozenset[int]:
    event = schema.alert_event
    with store.read() as connection:
        rows = connection.execute(
            select(event.c.alert_id).where(event.c.alert_id.in_(alerts), event.c.author == AUTHOR)
        )
        return frozenset(row.alert_id for row in rows)


def _positions(connection: Connection, project: str, bisected: BisectResult) -> tuple[int, int] | None:
    """Positions of the range's ends; None if one has no results or is not ordered yet."""
    table = schema.commit
    owner = project_id(connection, project)
    rows = connection.execute(
        select(table.c.hash, table.c.position).where(
            table.c.project_id == owner, table.c.hash.in_([bisected.good, bisected.bad])
        )
    )
    position_of = {row.hash: row.position for row in rows}
    good, bad = position_of.get(bisected.good), position_of.get(bisected.bad)
    return None if good is None or bad is None else (good, bad)


def _alerts_between(connection: Connection, project: str, bisected: BisectResult) -> list[tuple[int, AlertState]]:
    alert, part = schema.alert, schema.alert_series
    positions = _positions(connection, project, bisected)
    if positions is None:
        return []
    good, bad = positions
    rows = connection.execute(
        select(alert.c.id, alert.c.state)
        .join(part, part.c.alert_id == alert.c.id)
        .join(schema.series, schema.series.c.id == part.c.series_id)
        .join(schema.commit, schema.commit.c.id == alert.c.commit_id)
        .where(
            schema.series.c.key == bisected.series,
            alert.c.state.in_([AlertState.OPEN.value, AlertState.ACKNOWLEDGED.value]),
            schema.commit.c.position > good,
            schema.commit.c.position <= bad,
        )
        .distinct()
    )
    return [(row.id, AlertState(row.state)) for row in rows]


def _update_alert(
    connection: Connection, project: str, alert: int, state: AlertState, bisected: BisectResult, now_ms: int
) -> None:
    stated = schema.stated_change
    before = connection.execute(select(stated).where(stated.c.alert_id == alert)).one_or_none()
    is_by_person = before is not None and not before.author.startswith(AUTHOR)
    kind, detail = EventKind.NOTED, None
    if bisected.culprit is not None and not is_by_person:
        commit, previous = (
            _commit_id(connection, project, each) for each in (bisected.culprit.commit, bisected.culprit.previous)
        )
        author = f"{AUTHOR} ({bisected.culprit.confidence})"
        if before is not None and (before.commit_id, before.author) == (commit, author):
            return
        row = {
            "alert_id": alert,
            "commit_id": commit,
            "previous_commit_id": previous,
            "author": author,
            "stated_ms": now_ms,
        }
        insert_or_replace(connection, stated, [row])
        kind, detail = EventKind.MOVED, bisected.culprit.commit
    add_event(connection, alert, state, now_ms=now_ms, author=AUTHOR, note=bisected.summary, kind=kind, detail=detail)
    table = schema.alert
    connection.execute(update(table).where(table.c.id == alert).values(version=table.c.version + 1))


def _commit_id(connection: Connection, project: str, commit: str) -> int:
    table = schema.commit
    owner = project_id(connection, project)
    query = select(table.c.id).where(table.c.project_id == owner, table.c.hash == commit)
    return int(connection.execute(query).scalar_one())


def _follow(connection: Connection, project: str, alert: int, bisected: BisectResult) -> None:
    """Update the indices of the changes of an alert's series, which commits measured by the bisect have shifted."""
    part, change = schema.alert_series, schema.changepoint
    positions = _positions(connection, project, bisected)
    if positions is None:
        return
    good, bad = positions
    rows = connection.execute(
        select(part.c.series_id, part.c.commit_id, change.c.place)
        .join(change, change.c.series_id == part.c.series_id)
        .join(schema.commit, schema.commit.c.id == change.c.commit_id)
        .where(
            part.c.alert_id == alert,
            change.c.is_worse,
            change.c.kind.in_([ChangeKind.STEP.value, ChangeKind.NOT_SIGNIFICANT.value]),
            schema.commit.c.position > good,
            schema.commit.c.position <= bad,
        )
        .order_by(change.c.place)
    ).all()
    for row in rows:
        row_key = (part.c.series_id == row.series_id) & (part.c.commit_id == row.commit_id)
        connection.execute(update(part).where(row_key).values(place=row.place))

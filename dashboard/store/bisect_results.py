"""What a bisect came to, where people look: a note on the commit, and the culprit of the alerts that it is about."""

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
    """A commit that a bisect names. Hashes are full ones, of commits with results."""

    commit: str
    previous: str  # the newest measured one before it, which is good
    confidence: str  # "99.4 %"


@dataclass(frozen=True, slots=True, kw_only=True)
class BisectResult:
    """What a bisect of a series (its key) between two commits came to; without a culprit it found none."""

    series: str
    good: str
    bad: str
    says: str  # in a sentence
    culprit: Culprit | None


def record_bisect(store: Store, project: str, bisected: BisectResult, *, now_ms: int) -> tuple[int, ...]:
    """Notes it on the culprit and in the waiting alerts of the series whose change lies in the range; returns these.

    The alerts state the culprit, unless a person stated another. Raises NothingToAnnotateError if a commit has no
    results.
    """
    culprit = bisected.culprit
    if culprit is not None:
        notes = annotations(store, project, commit=culprit.commit)
        if (bisected.series, AUTHOR, bisected.says) not in [(each.series, each.author, each.text) for each in notes]:
            add_annotation(
                store, project, culprit.commit, series=bisected.series, author=AUTHOR, text=bisected.says, now_ms=now_ms
            )
    with store.write(project, of_project=True) as connection:
        found = _alerts_between(connection, project, bisected)
        for alert, state in found:
            _tell(connection, project, alert, state, bisected, now_ms)
            _follow(connection, project, alert, bisected)
    return tuple(alert for alert, _ in found)


def bisected_alerts(store: Store, alerts: Collection[int]) -> frozenset[int]:
    """Those of the alerts that a bisect has told of."""
    event = schema.alert_event
    with store.read() as connection:
        rows = connection.execute(
            select(event.c.alert_id).where(event.c.alert_id.in_(alerts), event.c.author == AUTHOR)
        )
        return frozenset(row.alert_id for row in rows)


def _positions(connection: Connection, project: str, bisected: BisectResult) -> tuple[int, int] | None:
    """Of the range's ends; None where one has no results, or is not ordered yet."""
    table = schema.commit
    owner = project_id(connection, project)
    rows = connection.execute(
        select(table.c.hash, table.c.position).where(
            table.c.project_id == owner, table.c.hash.in_([bisected.good, bisected.bad])
        )
    )
    at = {row.hash: row.position for row in rows}
    good, bad = at.get(bisected.good), at.get(bisected.bad)
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


def _tell(
    connection: Connection, project: str, alert: int, state: AlertState, bisected: BisectResult, now_ms: int
) -> None:
    said = schema.stated_change
    before = connection.execute(select(said).where(said.c.alert_id == alert)).one_or_none()
    is_persons = before is not None and not before.author.startswith(AUTHOR)
    kind, detail = EventKind.NOTED, None
    if bisected.culprit is not None and not is_persons:
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
        insert_or_replace(connection, said, [row])
        kind, detail = EventKind.MOVED, bisected.culprit.commit
    add_event(connection, alert, state, now_ms=now_ms, author=AUTHOR, note=bisected.says, kind=kind, detail=detail)
    table = schema.alert
    connection.execute(update(table).where(table.c.id == alert).values(version=table.c.version + 1))


def _commit_id(connection: Connection, project: str, commit: str) -> int:
    table = schema.commit
    owner = project_id(connection, project)
    wanted = select(table.c.id).where(table.c.project_id == owner, table.c.hash == commit)
    return int(connection.execute(wanted).scalar_one())


def _follow(connection: Connection, project: str, alert: int, bisected: BisectResult) -> None:
    """Has an alert's series remember the places that their changes have now.

    Commits measured in between move a change among the commits that have a number, further than new data would.
    """
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
        mine = (part.c.series_id == row.series_id) & (part.c.commit_id == row.commit_id)
        connection.execute(update(part).where(mine).values(place=row.place))

"""Regressions that a person said may be: which, and why. Kept, and counted for one range of commits alone."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Row, select

from warpwatch.dashboard.store import tables
from warpwatch.dashboard.store.incoming import storable, storable_name
from warpwatch.dashboard.store.rows import insert_new
from warpwatch.dashboard.store.store import Store

_table = tables.acceptance


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """One person's word. Raises ValueError if a text is empty or holds what no database takes."""

    pattern: str  # a glob of kernels, benchmarks or titles of series
    reason: str
    by: str
    at: datetime
    source: str  # where it was said: "commit 1234abcd", an address
    at_most: float | None = None  # the largest relative change that is accepted; None: any

    def __post_init__(self) -> None:
        for name in ("pattern", "reason", "by", "source"):
            text = getattr(self, name)
            if not text.strip() or not storable(text):
                raise ValueError(f"an acceptance has a {name}; {text!r} is none")
            if name in {"pattern", "source"} and not storable_name(text):
                raise ValueError(f"the {name} of an acceptance is too long: {text[:40]!r}…")


def record_acceptances(
    store: Store, project: str, base: str, head: str, accepted: Iterable[Acceptance], *, now_ms: int
) -> None:  # fmt: skip
    """Keeps what was said of this range (full hashes); what is kept already stays as it is.

    Raises ValueError if there is no such project.
    """
    with store.write(project, of_project=True) as connection:
        owner = connection.execute(select(tables.project.c.id).where(tables.project.c.name == project)).scalar()
        if owner is None:
            raise ValueError(f"no project {project!r} in the store")
        rows = [
            {
                "project_id": owner, "base": base, "head": head, "pattern": each.pattern, "reason": each.reason,
                "author": each.by, "said_ms": round(each.at.timestamp() * 1000), "source": each.source,
                "at_most": each.at_most, "recorded_ms": now_ms,
            }
            for each in accepted
        ]  # fmt: skip
        insert_new(connection, _table, rows)


def acceptances(store: Store, project: str, base: str, head: str) -> tuple[Acceptance, ...]:
    """What was said of exactly this range, the first first."""
    with store.read() as connection:
        rows = connection.execute(
            select(_table)
            .join(tables.project, tables.project.c.id == _table.c.project_id)
            .where(tables.project.c.name == project, _table.c.base == base, _table.c.head == head)
            .order_by(_table.c.id)
        ).all()
    return tuple(map(_record, rows))


@dataclass(frozen=True, slots=True, kw_only=True)
class Expired:
    """A word that counted up to another head of the same base."""

    said: Acceptance
    until: str  # that head, full hash


def expired_acceptances(store: Store, project: str, base: str, head: str) -> tuple[Expired, ...]:
    """What was said of the same base and other heads, the newest first."""
    with store.read() as connection:
        rows = connection.execute(
            select(_table)
            .join(tables.project, tables.project.c.id == _table.c.project_id)
            .where(tables.project.c.name == project, _table.c.base == base, _table.c.head != head)
            .order_by(_table.c.id.desc())
        ).all()
    return tuple(Expired(said=_record(row), until=row.head) for row in rows)


def _record(row: Row[Any]) -> Acceptance:
    return Acceptance(
        pattern=row.pattern, reason=row.reason, by=row.author, source=row.source, at_most=row.at_most,
        at=datetime.fromtimestamp(row.said_ms / 1000, UTC),
    )  # fmt: skip

"""What a project states: the thresholds of its warpwatch.toml, and accepted regressions."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Row, select

from ..model.comparison import Acceptance
from . import schema
from .engine import Store
from .mappers import project_id
from .statements import insert_new, insert_or_replace

if TYPE_CHECKING:
    from ..model.thresholds import StatedLimits


# What a project states of the changes that count: the rules of its warpwatch.toml, and which commit they are of.
#
# Kept as rules: each series is resolved when it is judged, so that benchmarks which come later get theirs as well.

_table = schema.stated_limits


def state_limits(store: Store, project: str, stated: "StatedLimits", *, now_ms: int) -> bool:
    """Keeps it, unless what a newer commit states is kept already; returns whether it holds now.

    Raises ValueError if there is no such project.
    """
    with store.write(project, of_project=True) as connection:
        owner = project_id(connection, project)
        if owner is None:
            raise ValueError(f"no project {project!r} in the store")
        # A clock that is ahead shall not keep what is stated later from holding.
        committed_ms = min(max(round(stated.committed.timestamp() * 1000), 0), now_ms)
        row = {
            "project_id": owner,
            "source": stated.source,
            "commit_hash": stated.commit,
            "committed_ms": committed_ms,
            "rules": stated.model_dump(mode="json", exclude={"source", "commit", "committed"}, exclude_defaults=True),
        }
        held = connection.execute(select(_table).where(_table.c.project_id == owner)).one_or_none()
        if held is not None and held.committed_ms > committed_ms:
            return False
        if held is None or any(held._mapping[name] != value for name, value in row.items()):
            insert_or_replace(connection, _table, [{**row, "stated_ms": now_ms}])
    return True


def stated_limits(store: Store, project: str) -> "StatedLimits | None":
    """What holds of a project; None where nobody stated anything."""
    with store.read() as connection:
        owner = project_id(connection, project)
        return read_stated(connection, owner) if owner is not None else None


def read_stated(connection: Connection, owner: int) -> "StatedLimits | None":
    """What holds of the project with that id."""
    row = connection.execute(select(_table).where(_table.c.project_id == owner)).one_or_none()
    return _record(row) if row is not None else None


def _record(row: Row[Any]) -> "StatedLimits":
    # pydantic takes a tenth of a second, which who asks where nothing is stated need not wait
    from ..model.thresholds import StatedLimits

    return StatedLimits(
        **row.rules,
        source=row.source,
        commit=row.commit_hash,
        committed=datetime.fromtimestamp(row.committed_ms / 1000, UTC),
    )


# Regressions that a person said may be: which, and why. Kept, and counted for one range of commits alone.

_acceptance_table = schema.acceptance


def record_acceptances(
    store: Store, project: str, base: str, head: str, accepted: Iterable[Acceptance], *, now_ms: int
) -> None:
    """Keeps what was said of this range (full hashes); what is kept already stays as it is.

    Raises ValueError if there is no such project.
    """
    with store.write(project, of_project=True) as connection:
        owner = connection.execute(select(schema.project.c.id).where(schema.project.c.name == project)).scalar()
        if owner is None:
            raise ValueError(f"no project {project!r} in the store")
        rows = [
            {
                "project_id": owner,
                "base": base,
                "head": head,
                "pattern": each.pattern,
                "reason": each.reason,
                "author": each.by,
                "said_ms": round(each.at.timestamp() * 1000),
                "source": each.source,
                "at_most": each.at_most,
                "recorded_ms": now_ms,
            }
            for each in accepted
        ]
        insert_new(connection, _acceptance_table, rows)


def acceptances(store: Store, project: str, base: str, head: str) -> tuple[Acceptance, ...]:
    """What was said of exactly this range, the first first."""
    with store.read() as connection:
        rows = connection.execute(
            select(_acceptance_table)
            .join(schema.project, schema.project.c.id == _acceptance_table.c.project_id)
            .where(schema.project.c.name == project, _acceptance_table.c.base == base, _acceptance_table.c.head == head)
            .order_by(_acceptance_table.c.id)
        ).all()
    return tuple(map(_acceptance_record, rows))


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiredAcceptance:
    """A word that counted up to another head of the same base."""

    said: Acceptance
    until: str  # that head, full hash


def expired_acceptances(store: Store, project: str, base: str, head: str) -> tuple[ExpiredAcceptance, ...]:
    """What was said of the same base and other heads, the newest first."""
    with store.read() as connection:
        rows = connection.execute(
            select(_acceptance_table)
            .join(schema.project, schema.project.c.id == _acceptance_table.c.project_id)
            .where(schema.project.c.name == project, _acceptance_table.c.base == base, _acceptance_table.c.head != head)
            .order_by(_acceptance_table.c.id.desc())
        ).all()
    return tuple(ExpiredAcceptance(said=_acceptance_record(row), until=row.head) for row in rows)


def _acceptance_record(row: Row[Any]) -> Acceptance:
    return Acceptance(
        pattern=row.pattern,
        reason=row.reason,
        by=row.author,
        source=row.source,
        at_most=row.at_most,
        at=datetime.fromtimestamp(row.said_ms / 1000, UTC),
    )

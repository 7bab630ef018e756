"""A project's stated thresholds (warpwatch.toml) and accepted regressions."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Row, select

from ..model.comparison import Acceptance
from . import schema
from .engine import Store
from .mappers import moment, project_id
from .statements import insert_new, insert_or_replace

if TYPE_CHECKING:
    from ..model.thresholds import StatedLimits


# Thresholds are stored as rules and resolved for each series on use, so that they apply to new benchmarks too.

_table = schema.stated_limits


def state_limits(store: Store, project: str, stated: "StatedLimits", *, now_ms: int) -> bool:
    """Store the thresholds, unless those of a newer commit are stored; return whether these are in force.

    Raises ValueError for an unknown project.
    """
    with store.write(project, of_project=True) as connection:
        owner = project_id(connection, project)
        if not owner:
            raise ValueError(f"no project {project!r} in the store")
        # A commit dated in the future must not block later statements.
        committed_ms = min(max(round(stated.committed.timestamp() * 1000), 0), now_ms)
        row = {
            "project_id": owner,
            "source": stated.source,
            "commit_hash": stated.commit,
            "committed_ms": committed_ms,
            "rules": stated.model_dump(mode="json", exclude={"source", "commit", "committed"}, exclude_defaults=True),
        }
        stored = connection.execute(select(_table).where(_table.c.project_id == owner)).one_or_none()
        if stored is not None and stored.committed_ms > committed_ms:
            return False
        if stored is None or any(stored._mapping[name] != value for name, value in row.items()):
            insert_or_replace(connection, _table, [{**row, "stated_ms": now_ms}])
    return True


def stated_limits(store: Store, project: str) -> "StatedLimits | None":
    """The thresholds in force; None if the project states none."""
    with store.read() as connection:
        return read_stated(connection, project_id(connection, project))


def read_stated(connection: Connection, owner: int) -> "StatedLimits | None":
    """`stated_limits` by project id."""
    row = connection.execute(select(_table).where(_table.c.project_id == owner)).one_or_none()
    return _record(row) if row is not None else None


def _record(row: Row[Any]) -> "StatedLimits":
    # pydantic takes a tenth of a second to import
    from ..model.thresholds import StatedLimits

    return StatedLimits(
        **row.rules,
        source=row.source,
        commit=row.commit_hash,
        committed=moment(row.committed_ms),
    )


_acceptance_table = schema.acceptance


def record_acceptances(
    store: Store, project: str, base: str, head: str, accepted: Iterable[Acceptance], *, now_ms: int
) -> None:
    """Store acceptances for a range of commits (full hashes); stored ones stay as they are.

    Raises ValueError for an unknown project.
    """
    with store.write(project, of_project=True) as connection:
        owner = project_id(connection, project)
        if not owner:
            raise ValueError(f"no project {project!r} in the store")
        rows = [
            {
                "project_id": owner,
                "base": base,
                "head": head,
                "pattern": each.pattern,
                "reason": each.reason,
                "author": each.by,
                "accepted_ms": round(each.at.timestamp() * 1000),
                "source": each.source,
                "at_most": each.at_most,
                "recorded_ms": now_ms,
            }
            for each in accepted
        ]
        insert_new(connection, _acceptance_table, rows)


def acceptances(store: Store, project: str, base: str, head: str) -> tuple[Acceptance, ...]:
    """Acceptances for exactly this range, oldest first."""
    rows = _acceptance_rows(store, project, base)
    return tuple(_acceptance_record(row) for row in rows if row.head == head)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiredAcceptance:
    """An acceptance for the same base and another head."""

    acceptance: Acceptance
    until: str  # full hash of that head


def expired_acceptances(store: Store, project: str, base: str, head: str) -> tuple[ExpiredAcceptance, ...]:
    """Acceptances for the same base and other heads, newest first."""
    newest_first = reversed(_acceptance_rows(store, project, base))
    return tuple(
        ExpiredAcceptance(acceptance=_acceptance_record(row), until=row.head)
        for row in newest_first
        if row.head != head
    )


def _acceptance_rows(store: Store, project: str, base: str) -> Sequence[Row[Any]]:
    table = _acceptance_table
    with store.read() as connection:
        of_base = (table.c.project_id == project_id(connection, project)) & (table.c.base == base)
        return connection.execute(select(table).where(of_base).order_by(table.c.id)).all()


def _acceptance_record(row: Row[Any]) -> Acceptance:
    return Acceptance(
        pattern=row.pattern,
        reason=row.reason,
        by=row.author,
        source=row.source,
        at_most=row.at_most,
        at=moment(row.accepted_ms),
    )

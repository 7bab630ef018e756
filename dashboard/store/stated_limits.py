"""What a project states of the changes that count: the rules of its warpwatch.toml, and which commit they are of.

Kept as rules: each series is resolved when it is judged, so that benchmarks which come later get theirs as well.
"""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Row, select

from warpwatch.dashboard.store import tables
from warpwatch.dashboard.store.reading import project_id
from warpwatch.dashboard.store.rows import insert_or_replace
from warpwatch.dashboard.store.store import Store

if TYPE_CHECKING:
    from warpwatch.dashboard.limit_rules.stated import StatedLimits

_table = tables.stated_limits


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
            "project_id": owner, "source": stated.source, "commit_hash": stated.commit, "committed_ms": committed_ms,
            "rules": stated.model_dump(mode="json", exclude={"source", "commit", "committed"}, exclude_defaults=True),
        }  # fmt: skip
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
    from warpwatch.dashboard.limit_rules.stated import StatedLimits

    return StatedLimits(
        **row.rules, source=row.source, commit=row.commit_hash,
        committed=datetime.fromtimestamp(row.committed_ms / 1000, UTC),
    )  # fmt: skip

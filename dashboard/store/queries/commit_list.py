"""The commits of a project that have results, a part at a time."""

from sqlalchemy import func, select

from warpwatch.dashboard.store import tables
from warpwatch.dashboard.store.reading import commit_record, project_id
from warpwatch.dashboard.store.records import Commit
from warpwatch.dashboard.store.store import Store


def commit_list(store: Store, project: str, *, limit: int, offset: int = 0) -> tuple[int, tuple[Commit, ...]]:
    """How many there are, and those of this part, newest first."""
    table = tables.commit
    with store.read() as connection:
        own = table.c.project_id == project_id(connection, project)
        total = connection.execute(select(func.count()).select_from(table).where(own)).scalar_one()
        rows = connection.execute(
            select(table).where(own).order_by(table.c.position.desc(), table.c.id.desc()).limit(limit).offset(offset)
        )
        return total, tuple(commit_record(row) for row in rows)

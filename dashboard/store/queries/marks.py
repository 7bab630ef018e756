"""What people and the repository mark in a history: notes and releases."""

from typing import NamedTuple

from sqlalchemy import Connection, select

from warpwatch.dashboard.store import tables
from warpwatch.dashboard.store.annotations import RELEASES
from warpwatch.dashboard.store.shown_records import MarkKind


class MarkRow(NamedTuple):
    """A mark whose commit is still an id."""

    commit: int
    kind: MarkKind
    text: str
    author: str | None


def written_marks(connection: Connection, project: int, series: int) -> list[MarkRow]:
    """Releases of the project, and notes on its commits or on this series."""
    note, commit = tables.annotation, tables.commit
    rows = connection.execute(
        select(note.c.commit_id, note.c.author, note.c.text)
        .join(commit, commit.c.id == note.c.commit_id)
        .where(commit.c.project_id == project, note.c.series_id.is_(None) | (note.c.series_id == series))
        .order_by(note.c.created_ms, note.c.id)
    )
    return [
        MarkRow(row.commit_id, MarkKind.RELEASE, row.text, None)
        if row.author == RELEASES
        else MarkRow(row.commit_id, MarkKind.NOTE, row.text, row.author)
        for row in rows
    ]

"""Files that the last import from each source could not read, with reasons; shown on the machines page."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import delete, insert, select

from . import schema
from .engine import Store
from .mappers import moment, project_id

_MOST = 100  # messages of a source; the last one has the number of the rest
_LONGEST = 2000  # characters


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedFiles:
    """Files that one import left out."""

    source: str
    at: datetime
    messages: tuple[str, ...]  # "path: reason"


def record_rejected_files(store: Store, project: str, source: str, messages: Sequence[str], *, now_ms: int) -> None:
    """Replace the messages of a source. A project without results is not created."""
    lines = [line[:_LONGEST] for line in messages[:_MOST]]
    if len(messages) > _MOST:
        lines[-1:] = [f"… and {len(messages) - _MOST + 1:,} more files"]
    table = schema.set_aside
    with store.read() as connection:
        owner = project_id(connection, project)
        has_messages = select(table.c.number).where(table.c.project_id == owner, table.c.source == source).limit(1)
        if not owner or not (lines or connection.execute(has_messages).first()):
            return
    with store.write(project, of_project=True) as connection:
        owner = project_id(connection, project)
        if not owner:
            return
        connection.execute(delete(table).where(table.c.project_id == owner, table.c.source == source))
        rows = [
            {"project_id": owner, "source": source, "number": number, "message": line, "at_ms": now_ms}
            for number, line in enumerate(lines)
        ]
        if rows:
            connection.execute(insert(table), rows)


def rejected_files(store: Store, project: str) -> tuple[RejectedFiles, ...]:
    """Files left out by the last import from each source, the newest import first."""
    table = schema.set_aside
    with store.read() as connection:
        rows = connection.execute(
            select(table)
            .where(table.c.project_id == project_id(connection, project))
            .order_by(table.c.at_ms.desc(), table.c.source, table.c.number)
        ).all()
    messages: dict[str, list[str]] = {}
    for row in rows:
        messages.setdefault(row.source, []).append(row.message)
    when = {row.source: moment(row.at_ms) for row in rows}
    return tuple(
        RejectedFiles(source=source, at=at, messages=tuple(lines))
        for source, lines in messages.items()
        if (at := when[source]) is not None
    )

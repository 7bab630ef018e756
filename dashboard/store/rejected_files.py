"""Which files the last import from each place could not take, and why: told on the machines' page until the next."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import delete, insert, select

from . import schema
from .engine import Store
from .mappers import moment, project_id

_MOST = 100  # lines of a place; the last one says how many more there were
_LONGEST = 2000  # letters


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedFile:
    """What one import left out."""

    source: str
    at: datetime
    told: tuple[str, ...]  # "path: reason"


def note_set_aside(store: Store, project: str, source: str, told: Sequence[str], *, now_ms: int) -> None:
    """Remembers it in place of what was told of that source before. A project that nothing went into has none."""
    lines = [line[:_LONGEST] for line in told[:_MOST]]
    if len(told) > _MOST:
        lines[-1:] = [f"… and {len(told) - _MOST + 1:,} more files"]
    table = schema.set_aside
    with store.read() as connection:
        owner = project_id(connection, project)
        is_there = select(table.c.number).where(table.c.project_id == owner, table.c.source == source).limit(1)
        if owner is None or not (lines or connection.execute(is_there).first()):
            return
    with store.write(project, of_project=True) as connection:
        owner = project_id(connection, project)
        if owner is None:
            return
        connection.execute(delete(table).where(table.c.project_id == owner, table.c.source == source))
        rows = [
            {"project_id": owner, "source": source, "number": number, "told": line, "at_ms": now_ms}
            for number, line in enumerate(lines)
        ]
        if rows:
            connection.execute(insert(table), rows)


def set_aside(store: Store, project: str) -> tuple[RejectedFile, ...]:
    """What the last import from each place left out, the newest first."""
    table = schema.set_aside
    with store.read() as connection:
        rows = connection.execute(
            select(table)
            .where(table.c.project_id == project_id(connection, project))
            .order_by(table.c.at_ms.desc(), table.c.source, table.c.number)
        ).all()
    found: dict[str, list[str]] = {}
    for row in rows:
        found.setdefault(row.source, []).append(row.told)
    when = {row.source: moment(row.at_ms) for row in rows}
    return tuple(
        RejectedFile(source=source, at=at, told=tuple(lines))
        for source, lines in found.items()
        if (at := when[source]) is not None
    )

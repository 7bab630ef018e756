"""Counts what is written into the store, so that what pages remember holds until then, and no shorter.

A transaction counts by the tables that its statements changed rows of, in the same transaction: no writer has to think
of it, and a table that is not named here counts as found.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, Engine, event, select

from warpwatch.dashboard.store import tables
from warpwatch.dashboard.store.rows import insert_or_add

_SAID = frozenset({
    "alert", "alert_series", "alert_event", "health_alert", "health_event", "stated_change", "annotation", "acceptance",
    "set_aside",
})  # fmt: skip
# Read by no page that is kept or remembers: bookkeeping of imports and of the analysis, and what is read each time.
NOBODYS = frozenset({"token", "outbox", "source_file", "recorded", "written", "alembic_version"})
_EVERY = ""  # in the place of a project's name
_CHANGES = re.compile(r'\s*(?:INSERT\s+(?:OR\s+\w+\s+)?INTO|UPDATE|DELETE\s+FROM)\s+"?(\w+)', re.IGNORECASE)
READ = select(tables.written.c.project, tables.written.c.found, tables.written.c.said)
_TOUCHED = "warpwatch_touched"  # execution option: the names of the tables whose rows a transaction changed


class Counts(NamedTuple):
    """How often it was written what was measured and found, and what people, alerts and imports said of it."""

    found: int = 0
    said: int = 0


def listen(engine: Engine) -> None:
    """To be called once, before the connections of an engine are counted."""
    event.listen(engine, "after_cursor_execute", _note)


def counting() -> dict[str, set[str]]:
    """Execution options of a connection whose next transaction is to be counted."""
    return {_TOUCHED: set()}


def count(connection: Connection, project: str | None) -> None:
    """Counts the transaction, as its last statement: of one project, or None of any. Nothing changed counts nothing."""
    touched = connection.get_execution_options()[_TOUCHED] - NOBODYS
    if not touched:
        return
    row = {"project": project or _EVERY, "found": int(bool(touched - _SAID)), "said": int(bool(touched & _SAID))}
    insert_or_add(connection, tables.written, row)


def as_counts(rows: Iterable[Sequence[Any]]) -> dict[str, Counts]:
    """The rows of READ, by project; for `of_projects`."""
    return {project: Counts(found, said) for project, found, said in rows}


def of_projects(counts: Mapping[str, Counts], projects: Iterable[str] | None) -> Counts:
    """What was written of the projects, or of all: each number is another one as soon as something was."""
    named = set(counts) if projects is None else {_EVERY, *projects}
    known = [counts[name] for name in named if name in counts]
    return Counts(sum(each.found for each in known), sum(each.said for each in known))


def _note(connection: Connection, cursor: Any, statement: str, _parameters: Any, _context: Any, _many: bool) -> None:
    touched: set[str] | None = connection.get_execution_options().get(_TOUCHED)
    found = _CHANGES.match(statement) if touched is not None else None
    # Where rows are given back, SQLite's driver counts what was changed once they are read.
    unknown = connection.dialect.name == "sqlite" and "RETURNING" in statement
    if found and touched is not None and (unknown or cursor.rowcount != 0):
        touched.add(found[1])

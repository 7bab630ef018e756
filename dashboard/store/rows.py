"""How rows reach the tables in bulk, and how a status is kept in one."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Table
from sqlalchemy.dialects import postgresql, sqlite

from warpwatch.dashboard.store.records import Status

STATUS_CODES = {Status.OK: 0, Status.INVALID: 1, Status.FAILED: 2, Status.UNAVAILABLE: 3, Status.UNCHANGED: 4}
STATUS_OF_CODE = {code: status for status, code in STATUS_CODES.items()}


def insert_new(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> int:
    """Inserts rows whose key is not there yet; returns how many those were, where the driver counts them."""
    if not rows:
        return 0
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    done = connection.execute(dialect.insert(table).on_conflict_do_nothing(), rows)
    return done.rowcount if done.rowcount >= 0 else len(rows)


def insert_or_replace(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Inserts rows, each in place of one that has its key. No two of `rows` may share theirs."""
    if not rows:
        return
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    keys = [column.name for column in table.primary_key]
    new = dialect.insert(table)
    rest = {column.name: new.excluded[column.name] for column in table.c if column.name not in keys}
    connection.execute(new.on_conflict_do_update(index_elements=keys, set_=rest), rows)

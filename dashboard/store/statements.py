"""Statements of many rows: inserts, updates, and selects by many ids."""

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    Table,
    Text,
    any_,
    bindparam,
    cast,
    func,
    select,
)
from sqlalchemy.dialects import sqlite

from ..model.series import Status

STATUS_CODES = {
    Status.OK: 0,
    Status.INVALID: 1,
    Status.FAILED: 2,
    Status.UNAVAILABLE: 3,
    Status.UNCHANGED: 4,
    Status.WRONG: 5,
}
STATUS_OF_CODE = {code: status for status, code in STATUS_CODES.items()}


def insert_rows(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows, which must all have the same columns."""
    if rows:
        _execute_many(connection, _new(connection, table), table, rows)


def insert_new(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> int:
    """Insert rows with new keys; return their number, if the driver counts them."""
    if not rows:
        return 0
    done = _execute_many(connection, _new(connection, table).on_conflict_do_nothing(), table, rows)
    return done.rowcount if done.rowcount >= 0 else len(rows)


def insert_one(connection: Connection, table: Table) -> Any:
    """A statement that inserts a row and returns its id, or nothing if the name exists."""
    return _new(connection, table).on_conflict_do_nothing().returning(table.c.id)


def insert_or_replace(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows, replacing rows of the same key. The keys of `rows` must differ."""
    if not rows:
        return
    keys = [column.name for column in table.primary_key]
    new = _new(connection, table)
    rest = {column.name: new.excluded[column.name] for column in table.c if column.name not in keys}
    _execute_many(connection, new.on_conflict_do_update(index_elements=keys, set_=rest), table, rows)


def insert_or_add(connection: Connection, table: Table, row: Mapping[str, Any]) -> None:
    """Insert a row of counts, or add them to the row of the same key."""
    new = _new(connection, table).values(**row)
    keys = [column.name for column in table.primary_key]
    sums = {column.name: column + new.excluded[column.name] for column in table.c if column.name not in keys}
    connection.execute(new.on_conflict_do_update(index_elements=keys, set_=sums))


def update_each(connection: Connection, table: Table, statement: Any, rows: Sequence[Mapping[str, Any]]) -> None:
    """Execute an update for each row, which has the parameters of the statement's values and WHERE."""
    if rows:
        _execute_many(connection, statement, table, rows)


def _new(connection: Connection, table: Table) -> Any:
    if connection.dialect.name != "postgresql":
        return sqlite.insert(table)
    from sqlalchemy.dialects import postgresql  # slow to import, and not needed for SQLite

    return postgresql.insert(table)


def _execute_many(connection: Connection, statement: Any, table: Table, rows: Sequence[Mapping[str, Any]]) -> Any:
    """Execute a statement for each row; for SQLite by the driver, because SQLAlchemy takes as long as the writing."""
    if connection.dialect.name != "sqlite":
        return connection.execute(statement, rows)
    compiled = statement.compile(dialect=connection.dialect, column_keys=list(rows[0]))
    names = compiled.positiontup
    if not set(names) <= rows[0].keys():  # a column default applies
        return connection.execute(statement, rows)
    columns = []
    for name in names:
        column, target = [row[name] for row in rows], table.c.get(name)  # None: a parameter of the WHERE
        sql_type = target.type.dialect_impl(connection.dialect) if target is not None else None
        as_stored = sql_type.bind_processor(connection.dialect) if sql_type is not None else None
        columns.append(column if as_stored is None else map(as_stored, column))
    return connection.exec_driver_sql(str(compiled), list(zip(*columns, strict=True)))


# Conditions on many ids with one parameter: the statement is compiled and planned once, and the databases' limits of
# parameters do not apply.


def id_in(connection: Connection, column: Column[Any], ids: Collection[int]) -> ColumnElement[bool]:
    """Condition: the column is one of the ids."""
    numbers = ",".join([str(int(number)) for number in ids])
    if connection.dialect.name == "postgresql":
        # As text: the driver takes a microsecond for each number of a list.
        array = cast(bindparam(None, f"{{{numbers}}}", type_=Text, unique=True), ARRAY(BigInteger))
        return column == any_(array)
    each = func.json_each(bindparam(None, f"[{numbers}]", unique=True)).table_valued("value")
    return column.in_(select(each.c.value))


def is_one_of(connection: Connection, column: Column[Any], names: Collection[str]) -> ColumnElement[bool]:
    """Condition: the column is one of the texts."""
    if connection.dialect.name == "postgresql":
        return column == any_(cast(bindparam(None, list(names), unique=True), ARRAY(Text)))
    each = func.json_each(bindparam(None, json.dumps(list(names)), unique=True)).table_valued("value")
    return column.in_(select(each.c.value))

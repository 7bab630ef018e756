"""Rows of many ids in one statement that is the same for any number of them: it is compiled and planned once, and
databases take no more than some ten thousand parameters.
"""

import json
from collections.abc import Collection
from typing import Any

from sqlalchemy import ARRAY, BigInteger, Column, ColumnElement, Connection, Text, any_, bindparam, cast, func, select


def is_among(connection: Connection, column: Column[Any], ids: Collection[int]) -> ColumnElement[bool]:
    """Whether the column is one of the ids."""
    numbers = ",".join([str(int(number)) for number in ids])
    if connection.dialect.name == "postgresql":
        # As text: the driver takes a microsecond for each number of a list.
        given = cast(bindparam(None, f"{{{numbers}}}", type_=Text, unique=True), ARRAY(BigInteger))
        return column == any_(given)
    each = func.json_each(bindparam(None, f"[{numbers}]", unique=True)).table_valued("value")
    return column.in_(select(each.c.value))


def is_one_of(connection: Connection, column: Column[Any], names: Collection[str]) -> ColumnElement[bool]:
    """Whether the column is one of the texts."""
    if connection.dialect.name == "postgresql":
        return column == any_(cast(bindparam(None, list(names), unique=True), ARRAY(Text)))
    each = func.json_each(bindparam(None, json.dumps(list(names)), unique=True)).table_valued("value")
    return column.in_(select(each.c.value))

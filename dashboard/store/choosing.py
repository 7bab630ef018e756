"""Rows of many ids in one statement that is the same for any number of them: it is compiled and planned once."""

import json
from collections.abc import Collection
from typing import Any

from sqlalchemy import ARRAY, BigInteger, Column, ColumnElement, Connection, any_, bindparam, func, select


def is_among(connection: Connection, column: Column[Any], ids: Collection[int]) -> ColumnElement[bool]:
    """Whether the column is one of the ids."""
    numbers = [int(number) for number in ids]
    if connection.dialect.name == "postgresql":
        given = bindparam(None, numbers, type_=ARRAY(BigInteger), unique=True)
        return column == any_(given)
    each = func.json_each(bindparam(None, json.dumps(numbers), unique=True)).table_valued("value")
    return column.in_(select(each.c.value))

"""An answer's list as CSV (RFC 4180): a row for each item, the same columns whatever is null in them."""

import csv
import io
import json
import math
import types
import typing
from collections.abc import Iterator
from datetime import datetime
from enum import Enum
from functools import cache
from typing import Any

from pydantic import BaseModel

from warpwatch.dashboard.csv_text import csv_text

_Path = tuple[str, ...]


def as_csv(answer: BaseModel, *, has_head: bool = True) -> str:
    """The field that the answer's class calls `csv_rows`. Objects become columns "commit.hash", lists JSON text.

    Without its head it goes on behind the part before.
    """
    field: str = getattr(type(answer), "csv_rows", "items")
    columns = csv_columns(type(answer), field)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    if has_head:
        writer.writerow([".".join(path) for path in columns])
    writer.writerows([_cell(_at(item, path)) for path in columns] for item in getattr(answer, field))
    return out.getvalue()


@cache
def csv_columns(answer: type[BaseModel], field: str) -> tuple[_Path, ...]:
    """The paths of the columns, in the order of the schema's fields."""
    (item,) = typing.get_args(answer.model_fields[field].annotation)
    return tuple(_paths(item, ()))


def _paths(shape: type[BaseModel], before: _Path) -> Iterator[_Path]:
    for name, field in shape.model_fields.items():
        inner = _shape_in(field.annotation)
        if inner is not None:
            yield from _paths(inner, (*before, name))
        else:
            yield (*before, name)


def _shape_in(annotation: Any) -> type[BaseModel] | None:
    """The object that stands there, alone or with null."""
    if isinstance(annotation, types.UnionType) or typing.get_origin(annotation) is typing.Union:
        return next(filter(None, map(_shape_in, typing.get_args(annotation))), None)
    return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None


def _at(item: Any, path: _Path) -> Any:
    for name in path:
        if item is None:
            return None
        item = getattr(item, name)
    return item


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, str):
        return csv_text(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None  # as in JSON
    if value is None or isinstance(value, int | float):
        return value
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")  # as in JSON
    return json.dumps(value, ensure_ascii=False, default=_plain)


def _plain(value: Any) -> Any:
    return json.loads(value.model_dump_json()) if isinstance(value, BaseModel) else str(value)

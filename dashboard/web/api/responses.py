"""Responses of the API as JSON or CSV, and the pages of lists."""

import csv
import io
import json
import math
import types
import typing
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from enum import Enum
from functools import cache
from typing import Any, TypeVar

from flask import Response, request, stream_with_context, url_for
from pydantic import BaseModel, Field

from ...model.schema import Schema
from ...text.tables import csv_text
from .query_params import Paged, Question, Table


class Listing(Schema):
    """A part of a list. `next` is the address of the next part, null on the last."""

    total: int = Field(ge=0)
    limit: int = Field(ge=1)
    offset: int = Field(ge=0)
    next: str | None


# An answer's list as CSV (RFC 4180): a row for each item, the same columns whatever is null in them.

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
    item, *_ = typing.get_args(answer.model_fields[field].annotation)
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


Item = TypeVar("Item")
_PART = 5000  # items of a whole list that are held at once
_CSV = "text/csv; charset=utf-8; header=present"


def answer_response(answer: BaseModel, asked: Question) -> Response:
    """The answer in the form that was asked for."""
    if isinstance(asked, Table) and _wants_csv(asked):
        response = Response(as_csv(answer), content_type=_CSV)
    else:
        response = Response(answer.model_dump_json() + "\n", content_type="application/json")
    if isinstance(answer, Listing) and answer.next:
        response.headers["Link"] = f'<{answer.next}>; rel="next"'
    response.vary.add("Accept")
    return response


def whole_list(view: Callable[[Paged], BaseModel], asked: Paged) -> Response:
    """Every item as CSV: what is asked for without a limit is not cut. Long lists go out part by part."""
    first = view(asked.model_copy(update={"limit": _PART}))
    if not isinstance(first, Listing) or first.next is None:
        return answer_response(first, asked)

    def parts() -> Iterator[str]:
        yield as_csv(first)
        for offset in range(_PART, first.total, _PART):
            yield as_csv(view(asked.model_copy(update={"limit": _PART, "offset": offset})), has_head=False)

    response = Response(stream_with_context(parts()), content_type=_CSV)
    response.vary.add("Accept")
    return response


def wants_whole_list(asked: Question) -> bool:
    """Whether a list is asked for as CSV, and no part of it."""
    return isinstance(asked, Paged) and _wants_csv(asked) and not {"limit", "offset"} & set(request.args)


def listing(entries: Sequence[Item], asked: Paged) -> tuple[Sequence[Item], dict[str, Any]]:
    """This part of a whole list, and the fields that every list has."""
    return entries[asked.offset : asked.offset + asked.limit], place(len(entries), asked)


def place(total: int, asked: Paged) -> dict[str, Any]:
    """The fields that every list has."""
    after = asked.offset + asked.limit
    query = {**request.args.to_dict(), "limit": asked.limit, "offset": after}
    onward = url_for(request.endpoint or "", **{**query, **(request.view_args or {})}) if after < total else None
    return {"total": total, "limit": asked.limit, "offset": asked.offset, "next": onward}


def _wants_csv(asked: Table) -> bool:
    if asked.format is not None:
        return asked.format == "csv"
    return request.accept_mimetypes.best_match(["application/json", "text/csv"]) == "text/csv"

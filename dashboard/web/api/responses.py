"""Responses of the API as JSON or CSV, and pagination."""

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
from .query_params import CsvParams, PageParams, QueryParams


class Listing(Schema):
    """A page of a list. `next` is the URL of the next page, null on the last."""

    total: int = Field(ge=0)
    limit: int = Field(ge=1)
    offset: int = Field(ge=0)
    next: str | None


# CSV (RFC 4180): a row per item, the same columns whatever is null in them.

_Path = tuple[str, ...]


def as_csv(body: BaseModel, *, has_header: bool = True) -> str:
    """The field named by the class variable `csv_rows`. Objects become columns "commit.hash", lists JSON text."""
    field: str = getattr(type(body), "csv_rows", "items")
    columns = csv_columns(type(body), field)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    if has_header:
        writer.writerow([".".join(path) for path in columns])
    writer.writerows([_cell(_at(item, path)) for path in columns] for item in getattr(body, field))
    return out.getvalue()


@cache
def csv_columns(model: type[BaseModel], field: str) -> tuple[_Path, ...]:
    """Paths of the columns, in the order of the model's fields."""
    item, *_ = typing.get_args(model.model_fields[field].annotation)
    return tuple(_paths(item, ()))


def _paths(model: type[BaseModel], parents: _Path) -> Iterator[_Path]:
    for name, field in model.model_fields.items():
        nested = _model_of(field.annotation)
        if nested is not None:
            yield from _paths(nested, (*parents, name))
        else:
            yield (*parents, name)


def _model_of(annotation: Any) -> type[BaseModel] | None:
    """The model of the annotation, also in a union with None."""
    if isinstance(annotation, types.UnionType) or typing.get_origin(annotation) is typing.Union:
        return next(filter(None, map(_model_of, typing.get_args(annotation))), None)
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
_CHUNK = 5000  # items of a whole list in memory at once
_CSV = "text/csv; charset=utf-8; header=present"


def respond(body: BaseModel, params: QueryParams) -> Response:
    """The body as JSON, or as CSV if requested."""
    if isinstance(params, CsvParams) and _wants_csv(params):
        response = Response(as_csv(body), content_type=_CSV)
    else:
        response = Response(body.model_dump_json() + "\n", content_type="application/json")
    if isinstance(body, Listing) and body.next:
        response.headers["Link"] = f'<{body.next}>; rel="next"'
    response.vary.add("Accept")
    return response


def whole_list(view: Callable[[PageParams], BaseModel], params: PageParams) -> Response:
    """All items as CSV, streamed in chunks."""
    first = view(params.model_copy(update={"limit": _CHUNK}))
    if not isinstance(first, Listing) or first.next is None:
        return respond(first, params)

    def chunks() -> Iterator[str]:
        yield as_csv(first)
        for offset in range(_CHUNK, first.total, _CHUNK):
            yield as_csv(view(params.model_copy(update={"limit": _CHUNK, "offset": offset})), has_header=False)

    response = Response(stream_with_context(chunks()), content_type=_CSV)
    response.vary.add("Accept")
    return response


def wants_whole_list(params: QueryParams) -> bool:
    """Whether the request is for a list as CSV without `limit` and `offset`."""
    return isinstance(params, PageParams) and _wants_csv(params) and not {"limit", "offset"} & set(request.args)


def listing(entries: Sequence[Item], params: PageParams) -> tuple[Sequence[Item], dict[str, Any]]:
    """The requested page of a list, and the fields of `Listing`."""
    return entries[params.offset : params.offset + params.limit], page_fields(len(entries), params)


def page_fields(total: int, params: PageParams) -> dict[str, Any]:
    """The fields of `Listing`."""
    after = params.offset + params.limit
    query = {**request.args.to_dict(), "limit": params.limit, "offset": after}
    next_url = url_for(request.endpoint or "", **{**query, **(request.view_args or {})}) if after < total else None
    return {"total": total, "limit": params.limit, "offset": params.offset, "next": next_url}


def _wants_csv(params: CsvParams) -> bool:
    if params.format is not None:
        return params.format == "csv"
    return request.accept_mimetypes.best_match(["application/json", "text/csv"]) == "text/csv"

"""Decorator of API views: reads the query parameters, writes the response, and describes both for OpenAPI.

Unknown and repeated parameters are errors: a misspelt filter would return other data than requested.
"""

import csv
import io
import json
import math
import re
import types
import typing
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from enum import Enum
from functools import cache, wraps
from inspect import cleandoc
from typing import Annotated, Any, Literal, TypeVar

from flask import Blueprint, Response, request, stream_with_context, url_for
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from ...model.schema import Schema
from ...text.tables import csv_text
from ..error_messages import InvalidRequestError

Text = Annotated[str, Field(max_length=200, pattern=r"^[^\x00]*$")]  # databases reject NUL
CommitPrefix = Annotated[str, Field(pattern="^[0-9a-fA-F]{4,64}$")]
# Pydantic alone reads a number as seconds since 1970.
Day = Annotated[date, BeforeValidator(lambda text: date.fromisoformat(_full_date(text)))]
Params = TypeVar("Params", bound="QueryParams")


class QueryParams(BaseModel):
    """Query parameters of a resource."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class CsvParams(QueryParams):
    """Parameters of a resource that is also available as CSV."""

    format: Literal["json", "csv"] | None = None
    """Overrides the header `Accept: text/csv`. CSV has a row per item, nested names joined by dots, and an apostrophe
    before a text that a spreadsheet would read as a formula."""


class PageParams(CsvParams):
    """Parameters of every list."""

    limit: int = Field(100, ge=1, le=1000)
    """Maximum number of items. CSV without `limit` and `offset` has all."""
    offset: int = Field(0, ge=0, le=10_000_000)
    """Number of items to skip; `next` in the response is the URL of the next page."""


def read_params(kind: type[Params]) -> Params:
    """The request's query parameters. Raises InvalidRequestError (422)."""
    twice = [name for name, values in request.args.lists() if len(values) > 1]
    if twice:
        raise InvalidRequestError([(name, "is given more than once") for name in twice])
    try:
        return kind.model_validate(request.args.to_dict())
    except ValidationError as error:
        faults = [(".".join(map(str, fault["loc"])), _message(fault["type"], fault["msg"])) for fault in error.errors()]
        raise InvalidRequestError(faults) from error


def _full_date(text: str) -> str:
    if not re.fullmatch(r"\d{4}-\d{2}-\d{2}", text, re.ASCII):
        raise ValueError("expected a date such as 2026-01-31")
    return text


def _message(kind: str, message: str) -> str:
    return "is not a parameter of this resource" if kind == "extra_forbidden" else message


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One operation of the OpenAPI document."""

    params: type[QueryParams]
    response: type[BaseModel]
    tag: str
    summary: str
    description: str
    body: type[BaseModel] | None  # of the request, if it is JSON
    statuses: tuple[int, ...]  # of its own problems, in addition to those of every operation

    @property
    def has_csv(self) -> bool:
        """Whether the response is also available as CSV."""
        return issubclass(self.params, CsvParams)


def operation(
    bp: Blueprint,
    rule: str,
    *,
    params: type[QueryParams],
    response: type[BaseModel],
    tag: str,
    statuses: tuple[int, ...] = (404,),
) -> Callable[[Callable[..., BaseModel]], Callable[..., Response]]:
    """Register `view(*path, params) -> response` as a GET; its docstring is summary and description in OpenAPI."""

    def decorate(view: Callable[..., BaseModel]) -> Callable[..., Response]:
        @wraps(view)
        def endpoint(**path: str) -> Response:
            query = read_params(params)
            if isinstance(query, PageParams) and is_whole_list(query):
                return whole_list(lambda page: view(**path, params=page), query)
            return respond(view(**path, params=query), query)

        describe(endpoint, view.__doc__, params=params, response=response, tag=tag, statuses=statuses)
        bp.get(rule)(endpoint)
        return endpoint

    return decorate


def describe(
    view: Callable[..., Any],
    docstring: str | None,
    *,
    params: type[QueryParams],
    response: type[BaseModel],
    tag: str,
    statuses: tuple[int, ...],
    body: type[BaseModel] | None = None,
) -> None:
    """Attach an `Operation` to the view, for the OpenAPI document."""
    summary, _, description = cleandoc(docstring or "").partition("\n\n")
    view.operation = Operation(  # type: ignore[attr-defined]
        params=params,
        response=response,
        tag=tag,
        summary=summary.rstrip("."),
        statuses=statuses,
        body=body,
        description=description.replace("\n", " "),
    )


def operation_of(view: Callable[..., Any]) -> Operation | None:
    """The operation that `describe` attached; None for the view of a page."""
    return getattr(view, "operation", None)


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
    if isinstance(params, CsvParams) and _is_csv(params):
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


def is_whole_list(params: QueryParams) -> bool:
    """Whether the request is for a list as CSV without `limit` and `offset`."""
    return isinstance(params, PageParams) and _is_csv(params) and not {"limit", "offset"} & set(request.args)


def listing(entries: Sequence[Item], params: PageParams) -> tuple[Sequence[Item], dict[str, Any]]:
    """The requested page of a list, and the fields of `Listing`."""
    return entries[params.offset : params.offset + params.limit], page_fields(len(entries), params)


def page_fields(total: int, params: PageParams) -> dict[str, Any]:
    """The fields of `Listing`."""
    after = params.offset + params.limit
    query = {**request.args.to_dict(), "limit": params.limit, "offset": after}
    next_url = url_for(request.endpoint or "", **{**query, **(request.view_args or {})}) if after < total else None
    return {"total": total, "limit": params.limit, "offset": params.offset, "next": next_url}


def _is_csv(params: CsvParams) -> bool:
    if params.format is not None:
        return params.format == "csv"
    return request.accept_mimetypes.best_match(["application/json", "text/csv"]) == "text/csv"

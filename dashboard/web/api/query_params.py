"""Query parameters. Unknown and repeated ones are errors: a misspelt filter would return other data than requested."""

import re
from datetime import date
from typing import Annotated, Literal, TypeVar

from flask import request
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from .problems import InvalidRequestError

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

"""What may stand behind the `?` of an address. Whatever a resource does not know is an error, and so is a repetition:
a filter with a slip of the pen would else answer another question.
"""

import re
from datetime import date
from typing import Annotated, Literal, TypeVar

from flask import request
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from .problems import WrongQuestionError

Text = Annotated[str, Field(max_length=200, pattern=r"^[^\x00]*$")]  # databases refuse the character zero
CommitPrefix = Annotated[str, Field(pattern="^[0-9a-fA-F]{4,64}$")]
# Pydantic itself takes a number for seconds since 1970.
Day = Annotated[date, BeforeValidator(lambda said: date.fromisoformat(_full_date(said)))]
Asked = TypeVar("Asked", bound="Question")


class Question(BaseModel):
    """The parameters of a resource."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Table(Question):
    """The parameters of what may also be had as CSV."""

    format: Literal["json", "csv"] | None = None
    """Goes before the header `Accept: text/csv`. CSV has a row for each item, nested names joined by dots, and an
    apostrophe before a text that a spreadsheet would take for a formula."""


class Paged(Table):
    """The parameters of every list."""

    limit: int = Field(100, ge=1, le=1000)
    """Most items of one answer. CSV without `limit` and `offset` has all of them."""
    offset: int = Field(0, ge=0, le=10_000_000)
    """Items to pass over; `next` in the answer is the address that goes on."""


def asked(kind: type[Asked]) -> Asked:
    """The request's question. Raises WrongQuestionError, which is answered with 422."""
    twice = [name for name, values in request.args.lists() if len(values) > 1]
    if twice:
        raise WrongQuestionError([(name, "is given more than once") for name in twice])
    try:
        return kind.model_validate(request.args.to_dict())
    except ValidationError as error:
        faults = [(".".join(map(str, one["loc"])), _sentence(one["type"], one["msg"])) for one in error.errors()]
        raise WrongQuestionError(faults) from error


def _full_date(said: str) -> str:
    if not re.fullmatch(r"\d{4}-\d{2}-\d{2}", said, re.ASCII):
        raise ValueError("wanted a date such as 2026-01-31")
    return said


def _sentence(kind: str, message: str) -> str:
    return "is no parameter of this resource" if kind == "extra_forbidden" else message

"""Every error of the API is one shape: RFC 9457's problem details, with the status that HTTP says too."""

from collections.abc import Sequence
from typing import Any

import orjson
from flask import Response
from pydantic import BaseModel, ConfigDict, Field
from werkzeug.exceptions import HTTPException, UnprocessableEntity

from ..error_messages import sentence_of

MEDIA_TYPE = "application/problem+json"


class Fault(BaseModel):
    """One parameter that cannot be understood."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    parameter: str
    message: str


class Problem(BaseModel):
    """What is wrong, and where it can be told what to do."""

    model_config = ConfigDict(use_attribute_docstrings=True, extra="allow")

    type: str
    """Always about:blank: the status tells the kind."""
    title: str
    status: int = Field(ge=400, le=599)
    detail: str
    """A sentence for people."""
    faults: list[Fault]
    """Of a 422, the parameters or the parts of the body at fault; else empty."""


class WrongQuestionError(UnprocessableEntity):
    """Parameters, or parts of a body, that a resource does not know or understand: names with a sentence each."""

    def __init__(self, faults: Sequence[tuple[str, str]], *, what: str = "The address") -> None:
        told = "; ".join(f"{name}: {message}" for name, message in faults)
        super().__init__(f"{what} is not understood: {told}.")
        self.faults = tuple(faults)


def problem(error: HTTPException) -> Response:
    """The answer to an error, with the headers it brings: how to authorise, which methods there are, when again."""
    made = error.get_response()
    status = error.code or 500
    faults = error.faults if isinstance(error, WrongQuestionError) else ()
    return problem_response(status, sentence_of(error), faults=faults, headers=dict(made.headers))


def problem_response(
    status: int,
    detail: str,
    *,
    faults: Sequence[tuple[str, str]] = (),
    headers: dict[str, str] | None = None,
    **more: Any,
) -> Response:
    """A problem with members of its own beside the common ones."""
    response = Response(status=status, headers=headers)
    body = {
        "type": "about:blank",
        "title": response.status.partition(" ")[2].title(),
        "status": status,
        "detail": detail,
        "faults": [{"parameter": name, "message": message} for name, message in faults],
        **more,
    }
    response.set_data(orjson.dumps(body) + b"\n")
    response.content_type = MEDIA_TYPE
    response.cache_control.no_store = True
    return response

"""Errors of the API as problem details (RFC 9457)."""

from collections.abc import Sequence
from typing import Any

import orjson
from flask import Response
from pydantic import BaseModel, ConfigDict, Field
from werkzeug.exceptions import HTTPException, UnprocessableEntity

from ..error_messages import sentence_of

MEDIA_TYPE = "application/problem+json"


class Fault(BaseModel):
    """An invalid parameter."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    parameter: str
    message: str


class Problem(BaseModel):
    """An error: what happened and, if known, what to do."""

    model_config = ConfigDict(use_attribute_docstrings=True, extra="allow")

    type: str
    """Always about:blank; the status is the kind."""
    title: str
    status: int = Field(ge=400, le=599)
    detail: str
    """A sentence for people."""
    faults: list[Fault]
    """Invalid parameters or parts of the body, for a 422; else empty."""


class InvalidRequestError(UnprocessableEntity):
    """Unknown or invalid parameters or parts of a body, each with a message; 422."""

    def __init__(self, faults: Sequence[tuple[str, str]], *, subject: str = "The query string") -> None:
        messages = "; ".join(f"{name}: {message}" for name, message in faults)
        super().__init__(f"{subject} is invalid: {messages}.")
        self.faults = tuple(faults)


def problem(error: HTTPException) -> Response:
    """The response to an error, with its headers (WWW-Authenticate, Allow, Retry-After)."""
    headers = error.get_response().headers
    status = error.code or 500
    faults = error.faults if isinstance(error, InvalidRequestError) else ()
    return problem_response(status, sentence_of(error), faults=faults, headers=dict(headers))


def problem_response(
    status: int,
    detail: str,
    *,
    faults: Sequence[tuple[str, str]] = (),
    headers: dict[str, str] | None = None,
    **more: Any,
) -> Response:
    """A problem response; `more` adds members to the common ones."""
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

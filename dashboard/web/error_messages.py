"""Messages of HTTP errors on pages, and the problem details (RFC 9457) of the API."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from flask import Response
from pydantic import BaseModel, ConfigDict, Field
from werkzeug.exceptions import HTTPException, UnprocessableEntity


@dataclass(frozen=True, slots=True, kw_only=True)
class _Words:
    heading: str
    sentence: str  # default; views may give a specific one
    advice: str = ""


_WORDS = {
    400: _Words(heading="Bad request", sentence="The URL has an invalid part."),
    401: _Words(heading="Sign in", sentence="Sign in to view this page."),
    403: _Words(heading="Not allowed", sentence="You do not have permission to do this."),
    404: _Words(
        heading="Not found",
        sentence="There is no page at this URL.",
        advice="It may have been renamed. Search for kernels, series, machines and commits by part of a name.",
    ),
    405: _Words(heading="Method not allowed", sentence="This URL does not support this HTTP method."),
    413: _Words(
        heading="Too large",
        sentence="The request is larger than the limit of this server.",
        advice="Send it in parts. The administrator sets the limit by WARPWATCH_UPLOAD_LIMIT_MIB.",
    ),
    429: _Words(
        heading="Too many requests",
        sentence="Too many requests per minute. Try again in a minute.",
        advice="The administrator sets the limit by WARPWATCH_REQUESTS_PER_MINUTE.",
    ),
    500: _Words(
        heading="Something went wrong",
        sentence="An internal error; the server’s log has the details.",
        advice="Try again. If it fails again, send the URL and the time to the administrator.",
    ),
    503: _Words(
        heading="Temporarily unavailable",
        sentence="The database does not respond.",
        advice="Try again in a few seconds. The server’s log has the database’s error, /healthz its current state.",
    ),
}


def heading_of(error: HTTPException) -> str:
    words = _WORDS.get(error.code or 500)
    return words.heading if words else error.name


def sentence_of(error: HTTPException) -> str:
    """What happened: the error's own description, else the default of its status."""
    words = _WORDS.get(error.code or 500)
    if error.description and error.description != type(error).description:
        return error.description
    return words.sentence if words else error.name


def advice_of(error: HTTPException) -> str:
    """What to do; empty if the sentence has it."""
    words = _WORDS.get(error.code or 500)
    return words.advice if words else ""


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

"""Messages of HTTP errors on pages and in the API."""

from dataclasses import dataclass

from werkzeug.exceptions import HTTPException


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
    """Kind of the error."""
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

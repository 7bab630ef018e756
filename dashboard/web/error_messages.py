"""What went wrong with a request, and what to do about it, in the words of pages and of the API."""

from dataclasses import dataclass

from werkzeug.exceptions import HTTPException


@dataclass(frozen=True, slots=True, kw_only=True)
class _Words:
    heading: str
    sentence: str  # where nobody said it more closely
    advice: str = ""


_WORDS = {
    400: _Words(heading="Not understood", sentence="The address has a part that this page does not understand."),
    401: _Words(heading="Log in", sentence="Reading here wants a login."),
    403: _Words(heading="Not allowed", sentence="This is for others than you."),
    404: _Words(
        heading="Not found",
        sentence="There is no page at this address.",
        advice="What it showed may have been renamed. The search finds kernels, series, machines and commits by any"
        " part of their names.",
    ),
    405: _Words(heading="Not allowed", sentence="This address cannot be asked in that way."),
    413: _Words(
        heading="Too large",
        sentence="What was sent is larger than this dashboard takes.",
        advice="Send it in parts. Whoever runs this dashboard sets the limit by WARPWATCH_UPLOAD_LIMIT_MIB.",
    ),
    429: _Words(
        heading="Too many requests",
        sentence="That was more than one may ask in a minute; try again in a minute.",
        advice="Whoever runs this dashboard sets how many one may make, by WARPWATCH_REQUESTS_PER_MINUTE.",
    ),
    500: _Words(
        heading="Something went wrong",
        sentence="This dashboard failed at that; the server’s log has the details.",
        advice="Try again. If it stays so, tell whoever runs this dashboard the address and the time.",
    ),
    503: _Words(
        heading="Not available now",
        sentence="The database does not answer, so that there is nothing to show.",
        advice="Try again in a few seconds. For whoever runs this dashboard: the server’s log has the database’s"
        " complaint, and /healthz tells when it answers again.",
    ),
}


def heading_of(error: HTTPException) -> str:
    """Its kind in a few words."""
    words = _WORDS.get(error.code or 500)
    return words.heading if words else error.name


def sentence_of(error: HTTPException) -> str:
    """What went wrong: as the one who raised it says, else what an error of the kind mostly is."""
    words = _WORDS.get(error.code or 500)
    if error.description and error.description != type(error).description:
        return error.description
    return words.sentence if words else error.name


def advice_of(error: HTTPException) -> str:
    """What to do about it; empty where the sentence says so."""
    words = _WORDS.get(error.code or 500)
    return words.advice if words else ""

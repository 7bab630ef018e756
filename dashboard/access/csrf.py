"""Requests that change something come from our own pages: a token that only they know, and the browser's own word."""

import hmac
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from flask import Flask, abort, g, request, session

from warpwatch.dashboard.access.guard import takes_tokens_alone
from warpwatch.dashboard.access.requester import has_bearer

_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
KEY = "csrf"  # of the session
_BYTES = 24
_LARGEST_FORM = 2**20  # bytes; only a token's results may be larger
FIELD = "csrf_token"
HEADER = "X-CSRF-Token"


def register(app: Flask) -> None:
    """Give templates `csrf_token()`, and refuse what changes something without it."""
    app.jinja_env.globals["csrf_token"] = csrf_token
    app.before_request(_check)


def csrf_token() -> str:
    """This browser's token, made on first use. A form sends it as the field `csrf_token`, a script as X-CSRF-Token."""
    if "csrf_stand_in" in g:
        return str(g.csrf_stand_in)
    if KEY not in session:
        session[KEY] = secrets.token_urlsafe(_BYTES)
    return str(session[KEY])


@contextmanager
def without_reader() -> Iterator[str]:
    """Meanwhile `csrf_token()` is what is given here, for each reader's own to be put in its place.

    It is another one each time and goes to nobody, so that no text of somebody's can have it.
    """
    g.csrf_stand_in = secrets.token_urlsafe(_BYTES)
    try:
        yield g.csrf_stand_in
    finally:
        del g.csrf_stand_in


def _check() -> None:
    if not has_bearer():
        request.max_content_length = _LARGEST_FORM
    if request.method in _SAFE or takes_tokens_alone() or has_bearer():
        return
    if request.routing_exception is not None:
        return  # nothing there takes this request: 404 or 405 says so
    if _is_of_another_site():
        abort(403, "This request comes from another site; open the page here and try again.")
    given = request.headers.get(HEADER) or request.form.get(FIELD) or ""
    if not hmac.compare_digest(given.encode(), str(session.get(KEY, "")).encode()) or not given:
        abort(403, "This form is out of date, or not ours: reload the page and try again. "
                   "A program sends “Authorization: Bearer TOKEN” instead.")  # fmt: skip


def _is_of_another_site() -> bool:
    """As the browser says; programs say nothing, and have no cookie that could be misused."""
    if request.headers.get("Sec-Fetch-Site", "same-origin") not in {"same-origin", "none"}:
        return True
    origin = request.headers.get("Origin")
    return origin is not None and urlsplit(origin).netloc != request.host

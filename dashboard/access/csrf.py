"""Requests that change something come from our own pages: a token that only they know, and the browser's own word."""

import hmac
import secrets
from urllib.parse import urlsplit

from flask import Flask, abort, request, session

from warpwatch.dashboard.access.guard import takes_tokens_alone
from warpwatch.dashboard.access.requester import has_bearer

_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_KEY = "csrf"
_LARGEST_FORM = 2**20  # bytes; only a token's results may be larger
FIELD = "csrf_token"
HEADER = "X-CSRF-Token"


def register(app: Flask) -> None:
    """Give templates `csrf_token()`, and refuse what changes something without it."""
    app.jinja_env.globals["csrf_token"] = csrf_token
    app.before_request(_check)


def csrf_token() -> str:
    """This browser's token, made on first use. A form sends it as the field `csrf_token`, a script as X-CSRF-Token."""
    if _KEY not in session:
        session[_KEY] = secrets.token_urlsafe(24)
    return str(session[_KEY])


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
    if not hmac.compare_digest(given.encode(), str(session.get(_KEY, "")).encode()) or not given:
        abort(403, "This form is out of date, or not ours: reload the page and try again. "
                   "A program sends “Authorization: Bearer TOKEN” instead.")  # fmt: skip


def _is_of_another_site() -> bool:
    """As the browser says; programs say nothing, and have no cookie that could be misused."""
    if request.headers.get("Sec-Fetch-Site", "same-origin") not in {"same-origin", "none"}:
        return True
    origin = request.headers.get("Origin")
    return origin is not None and urlsplit(origin).netloc != request.host

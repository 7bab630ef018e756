"""Requests that change something come from our own pages: a token that only they know, and the browser's own word."""

import base64
import binascii
import hmac
import secrets
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
    """This browser's token, made on first use. A form sends it as the field `csrf_token`, a script as X-CSRF-Token.

    It is masked anew for each answer: were it the same text in every compressed page, the lengths of pages could reveal
    it (Gluck, Harris, Prado, "BREACH: Reviving the CRIME Attack", 2013).
    """
    if "csrf_masked" not in g:
        g.csrf_masked = masked(session_token())
    return str(g.csrf_masked)


def session_token() -> str:
    """The token as the session's cookie holds it, made on first use."""
    if KEY not in session:
        session[KEY] = secrets.token_urlsafe(_BYTES)
    return str(session[KEY])


def masked(token: str) -> str:
    """Random bytes and, after them, the token under those bytes (exclusive or)."""
    plain = token.encode()
    pad = secrets.token_bytes(len(plain))
    return base64.urlsafe_b64encode(pad + _under(pad, plain)).decode()


def _unmasked(given: str) -> bytes:
    """The token in what `masked` gave; nothing in any other text."""
    try:
        both = base64.b64decode(given.encode(), altchars=b"-_", validate=True)
    except binascii.Error:
        return b""
    half = len(both) // 2
    return _under(both[:half], both[half:]) if len(both) == 2 * half else b""


def _under(pad: bytes, text: bytes) -> bytes:
    return bytes(one ^ other for one, other in zip(pad, text, strict=True))


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
    token = _unmasked(given)
    if not hmac.compare_digest(token, str(session.get(KEY, "")).encode()) or not token:
        abort(403, "This form is out of date, or not ours: reload the page and try again. "
                   "A program sends “Authorization: Bearer TOKEN” instead.")  # fmt: skip


def _is_of_another_site() -> bool:
    """As the browser says; programs say nothing, and have no cookie that could be misused."""
    if request.headers.get("Sec-Fetch-Site", "same-origin") not in {"same-origin", "none"}:
        return True
    origin = request.headers.get("Origin")
    return origin is not None and urlsplit(origin).netloc != request.host

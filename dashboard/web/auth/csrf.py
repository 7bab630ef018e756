"""CSRF protection: a token in forms, and the headers Sec-Fetch-Site and Origin."""

import base64
import binascii
import hmac
import secrets
from urllib.parse import urlsplit

from flask import Flask, abort, g, request, session

from .identity import has_bearer
from .permissions import is_token_only

_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
KEY = "csrf"  # of the session
_BYTES = 24
_MAX_FORM_BYTES = 2**20  # only uploads with a token may be larger
FIELD = "csrf_token"
HEADER = "X-CSRF-Token"


def register(app: Flask) -> None:
    """Provide `csrf_token()` to templates and reject requests that write without it."""
    app.jinja_env.globals["csrf_token"] = csrf_token
    app.before_request(_check)


def csrf_token() -> str:
    """The browser's token, for the form field `csrf_token` or the header X-CSRF-Token.

    Masked per response, against BREACH: the length of compressed pages could reveal a constant text (Gluck, Harris,
    Prado, "BREACH: Reviving the CRIME Attack", 2013).
    """
    if "csrf_masked" not in g:
        g.csrf_masked = masked(session_token())
    return str(g.csrf_masked)


def session_token() -> str:
    """The unmasked token in the session; created on first use."""
    if KEY not in session:
        session[KEY] = secrets.token_urlsafe(_BYTES)
    return str(session[KEY])


def masked(token: str) -> str:
    """Random pad, then token XOR pad; base64."""
    plain = token.encode()
    pad = secrets.token_bytes(len(plain))
    return base64.urlsafe_b64encode(pad + _xor(pad, plain)).decode()


def _unmasked(text: str) -> bytes:
    """Inverse of `masked`; empty for any other text."""
    try:
        data = base64.b64decode(text.encode(), altchars=b"-_", validate=True)
    except binascii.Error:
        return b""
    half = len(data) // 2
    return _xor(data[:half], data[half:]) if len(data) == 2 * half else b""


def _xor(pad: bytes, text: bytes) -> bytes:
    return bytes(one ^ other for one, other in zip(pad, text, strict=True))


def _check() -> None:
    if not has_bearer():
        request.max_content_length = _MAX_FORM_BYTES
    if request.method in _SAFE or is_token_only() or has_bearer():
        return
    if request.routing_exception is not None:
        return  # becomes a 404 or 405
    if _is_cross_site():
        abort(403, "This request comes from another site. Open the page here and try again.")
    token = _unmasked(request.headers.get(HEADER) or request.form.get(FIELD) or "")
    if not hmac.compare_digest(token, str(session.get(KEY, "")).encode()) or not token:
        abort(
            403,
            "The form has expired (no valid CSRF token). Reload the page and try again. "
            "Programs send “Authorization: Bearer TOKEN” instead.",
        )


def _is_cross_site() -> bool:
    """By Sec-Fetch-Site and Origin; programs send neither, and have no cookie to misuse."""
    if request.headers.get("Sec-Fetch-Site", "same-origin") not in {"same-origin", "none"}:
        return True
    origin = request.headers.get("Origin")
    return origin is not None and urlsplit(origin).netloc != request.host

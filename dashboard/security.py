"""The headers of every answer: only our own files run, nothing frames us, nothing is sent elsewhere or kept."""

import secrets

from flask import Flask, Response, g, request

from warpwatch.dashboard.access.requester import access_settings, is_local, person
from warpwatch.dashboard.access.sessions import is_encrypted

_HTTPS_FOR_S = 365 * 24 * 3600
_FEATURES = (
    "accelerometer", "camera", "display-capture", "geolocation", "gyroscope", "magnetometer", "microphone", "midi",
    "payment", "serial", "usb", "xr-spatial-tracking",
)  # fmt: skip


def register(app: Flask) -> None:
    """Give each request a nonce (`csp_nonce()` in templates) and each answer its headers."""
    app.jinja_env.globals["csp_nonce"] = nonce
    app.after_request(_headers)


def nonce() -> str:
    """This request's nonce, made on first use."""
    if "csp_nonce" not in g:
        g.csp_nonce = secrets.token_urlsafe(16)
    return str(g.csp_nonce)


def _headers(response: Response) -> Response:
    policy = {
        "default-src": "'none'",
        "script-src": f"'self' 'nonce-{nonce()}'",
        "style-src": f"'self' 'nonce-{nonce()}'",  # style attributes too: see static/charts.js
        "img-src": "'self' data:",  # Bootstrap's arrows and marks are data URLs in its style sheet
        "connect-src": "'self'",
        "base-uri": "'none'",
        "form-action": "'self'",
        "frame-ancestors": "'none'",
    }
    headers = response.headers
    headers["Content-Security-Policy"] = "; ".join(f"{name} {value}" for name, value in policy.items())
    headers["X-Content-Type-Options"] = "nosniff"
    headers["Referrer-Policy"] = "same-origin"
    headers["Cross-Origin-Opener-Policy"] = "same-origin"
    headers["Permissions-Policy"] = ", ".join(f"{feature}=()" for feature in _FEATURES)
    # Other sites may show our images, such as badges, where everybody may see them.
    is_public = not access_settings().reading_wants_login and not is_local()
    is_badge = is_public and (response.mimetype or "").startswith("image/")
    headers.setdefault("Cross-Origin-Resource-Policy", "cross-origin" if is_badge else "same-origin")
    if is_encrypted():
        headers["Strict-Transport-Security"] = f"max-age={_HTTPS_FOR_S}"
    if request.endpoint != "static":
        _keep_private(response)
    return response


def _keep_private(response: Response) -> None:
    """What is read behind a login stays in no cache, and what names the reader in none that others share."""
    if access_settings().reading_wants_login:
        response.headers["Cache-Control"] = "private, no-store"
    elif access_settings().login is not None and person() is not None:
        response.cache_control.public = False
        response.cache_control.private = True

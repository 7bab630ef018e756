"""The headers of every answer: only our own files run, nothing frames us, nothing is sent elsewhere or kept."""

from flask import Flask, Response, request

from warpwatch.dashboard.access.requester import access_settings, is_local, person
from warpwatch.dashboard.access.sessions import is_encrypted

_HTTPS_FOR_S = 365 * 24 * 3600
_POLICY = "; ".join((
    "default-src 'none'",
    "script-src 'self'",  # nothing inline, so that an answer needs no nonce and is the same for everybody
    "style-src 'self'",  # style attributes too: see static/charts.js
    "img-src 'self' data:",  # Bootstrap's arrows and marks are data URLs in its style sheet
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'self'",
    "frame-ancestors 'none'",
))  # fmt: skip
_NO_FEATURES = ", ".join(f"{feature}=()" for feature in (
    "accelerometer", "camera", "display-capture", "geolocation", "gyroscope", "magnetometer", "microphone", "midi",
    "payment", "serial", "usb", "xr-spatial-tracking",
))  # fmt: skip


def register(app: Flask) -> None:
    """Give each answer its headers."""
    app.after_request(_headers)


def _headers(response: Response) -> Response:
    headers = response.headers
    headers["Content-Security-Policy"] = _POLICY
    headers["X-Content-Type-Options"] = "nosniff"
    headers["Referrer-Policy"] = "same-origin"
    headers["Cross-Origin-Opener-Policy"] = "same-origin"
    headers["Permissions-Policy"] = _NO_FEATURES
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

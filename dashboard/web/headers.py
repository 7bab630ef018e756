"""Headers of every response: security, compression, server timing."""

from time import perf_counter, thread_time

from flask import Flask, Response, g, request
from flask_compress import Compress

from .auth.identity import access_settings, is_local, person
from .auth.sessions import is_encrypted

_HTTPS_FOR_S = 365 * 24 * 3600
_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",  # nothing inline, so that an answer needs no nonce and is the same for everybody
        "style-src 'self'",  # style attributes too: see static/charts.js
        "img-src 'self' data:",  # Bootstrap's arrows and marks are data URLs in its style sheet
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
)
_NO_FEATURES = ", ".join(
    f"{feature}=()"
    for feature in (
        "accelerometer",
        "camera",
        "display-capture",
        "geolocation",
        "gyroscope",
        "magnetometer",
        "microphone",
        "midi",
        "payment",
        "serial",
        "usb",
        "xr-spatial-tracking",
    )
)


def register_headers(app: Flask) -> None:
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
    is_public = not access_settings().reading_requires_login and not is_local()
    is_badge = is_public and (response.mimetype or "").startswith("image/")
    headers.setdefault("Cross-Origin-Resource-Policy", "cross-origin" if is_badge else "same-origin")
    if is_encrypted():
        headers["Strict-Transport-Security"] = f"max-age={_HTTPS_FOR_S}"
    if request.endpoint != "static":
        _keep_private(response)
    return response


def _keep_private(response: Response) -> None:
    """What is read behind a login stays in no cache, and what names the reader in none that others share."""
    if access_settings().reading_requires_login:
        response.headers["Cache-Control"] = "private, no-store"
    elif access_settings().login is not None and person() is not None:
        response.cache_control.public = False
        response.cache_control.private = True


# How answers travel: compressed if the browser accepts it, with an ETag, and with the time that they took.

_TYPES = (
    "text/html",
    "text/css",
    "text/javascript",
    "text/csv",
    "text/plain",
    "application/json",
    "image/svg+xml",
)


def register_compression(app: Flask) -> None:
    """To be called before all else that looks at answers, so that their time is in it."""
    app.before_request(_begin)
    app.after_request(_add_timing)
    app.config["COMPRESS_MIMETYPES"] = list(_TYPES)
    app.config["COMPRESS_ALGORITHM"] = ["br", "gzip"]
    app.config["COMPRESS_ALGORITHM_STREAMING"] = ["br", "gzip"]  # files of ours
    app.config["COMPRESS_BR_LEVEL"] = 4
    Compress(app)


def register_conditional(app: Flask) -> None:
    """Add ETags to responses. Call it last: Flask runs the handlers of responses in reverse order."""
    app.after_request(_conditional)


def _conditional(response: Response) -> Response:
    """Results may arrive at any time, so browsers revalidate each response, and get 304 if it is unchanged.

    A page with a form is never unchanged, because the form's token is masked anew each time (csrf.py).
    """
    if request.method not in {"GET", "HEAD"}:
        return response
    if not response.cache_control:
        response.cache_control.private = True
        response.cache_control.no_cache = True
    if response.status_code == 200 and not response.is_streamed:
        response.add_etag()
        response.make_conditional(request)
    return response


def _begin() -> None:
    g.began_s, g.worked_s = perf_counter(), thread_time()


def _add_timing(response: Response) -> Response:
    """The wall time in the thread that answers, the waiting for other threads in it, not what came before or after; and
    the processor time that the thread took of it.

    Browsers show it with the request (W3C, "Server Timing").
    """
    if "began_s" in g:
        wall_ms, cpu_ms = (perf_counter() - g.began_s) * 1000, (thread_time() - g.worked_s) * 1000
        response.headers["Server-Timing"] = f"app;dur={wall_ms:.2f}, cpu;dur={cpu_ms:.2f}"
    return response

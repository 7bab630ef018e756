"""How often one address, person or token may ask: in all, and for what costs much or can be guessed at.

This machine's own requests are not counted. Where a proxy stands before the server and WARPWATCH_PROXIES does not name
it, everybody would have its address, and one could lock out all.
"""

import time
from collections.abc import Callable
from typing import TypeVar

from flask import Flask, request
from flask.typing import ResponseReturnValue
from flask_limiter import Limiter, RateLimitExceeded
from limits.errors import ConfigurationError
from werkzeug.exceptions import TooManyRequests

from ...settings import AccessSettings, is_loopback
from ...text.labels import count
from . import identity

View = TypeVar("View", bound=Callable[..., object])
LOGINS = "20 per minute"
_COSTLY_SHARE = 5  # of all requests that one may make, one in so many
_LIMIT = "_warpwatch_limit"
_COSTLY = "costly"
_COSTLY_VIEWS = (  # that read a whole project, or compare two commits of it
    "overview.show",
    "roofline.show",
    "compare.show",
    "compare.row",
    "commits.show",
    "api_overview.show",
    "api_roofline.show",
    "api_comparison.show",
    "api_commits.show",
)
_UNCOUNTED = frozenset({"static", "health.show"})


def costly(view: View) -> View:
    """Marks a view that takes long: an upload, or a page that reads much."""
    setattr(view, _LIMIT, _COSTLY)
    return view


def limited(limit: str) -> Callable[[View], View]:
    """Marks a view that may be asked only so often, such as "20 per minute"."""

    def mark(view: View) -> View:
        setattr(view, _LIMIT, limit)
        return view

    return mark


def register(app: Flask, settings: AccessSettings) -> None:
    """Count requests, once all views are there. Raises ValueError for a storage that limits does not know."""
    most = settings.requests_per_minute
    if most == 0:
        return
    try:
        limiter = Limiter(
            _who,
            app=app,
            application_limits=[f"{most} per minute"],
            application_limits_exempt_when=_is_uncounted,
            storage_uri=settings.rate_storage,
            strategy="fixed-window",
            in_memory_fallback_enabled=not settings.rate_storage.startswith("memory"),
        )
    except ConfigurationError as error:
        raise ValueError(
            f"WARPWATCH_RATE_STORAGE is {settings.rate_storage!r}: {error}; wanted such as memory:// or "
            "redis://HOST:6379"
        ) from error
    for endpoint in _COSTLY_VIEWS:
        costly(app.view_functions[endpoint])
    for endpoint, view in app.view_functions.items():
        limit = getattr(view, _LIMIT, None)
        if limit is not None:
            said = f"{max(1, most // _COSTLY_SHARE)} per minute" if limit == _COSTLY else limit
            counted = limiter.limit(said, exempt_when=_is_uncounted)(view)
            app.view_functions[endpoint] = counted  # type: ignore[assignment]  # it answers as the view does

    def refuse(error: RateLimitExceeded) -> ResponseReturnValue:
        breached = limiter.current_limit
        seconds = max(1, int(breached.reset_at - time.time())) if breached else 60
        most = count(error.limit.limit.amount, "request")  # all of ours are of a minute
        said = f"That was more than {most} a minute from one address, person or token; try again in {seconds} s."
        return app.handle_http_exception(TooManyRequests(said, retry_after=seconds))

    app.register_error_handler(RateLimitExceeded, refuse)


def _who() -> str:
    """A token or a person by name; others by address."""
    if identity.has_bearer():
        token = identity.token()
        return f"token {token.id}" if token is not None else f"address {request.remote_addr}"
    name = identity.known_as()
    return f"person {name}" if name is not None else f"address {request.remote_addr}"


def _is_uncounted() -> bool:
    return request.endpoint in _UNCOUNTED or (
        not identity.access_settings().proxies and is_loopback(request.remote_addr or "")
    )

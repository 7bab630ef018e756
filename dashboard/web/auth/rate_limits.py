"""Rate limits per address, person or token: in total, for costly views, and for logins.

Requests of this machine are not counted: behind a proxy that WARPWATCH_PROXIES does not name, all clients share its
address.
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
_COSTLY_DIVISOR = 5  # limit of costly views: the general one divided by this
_LIMIT = "_warpwatch_limit"
_COSTLY = "costly"
_COSTLY_VIEWS = (  # read a whole project, or compare two commits
    "overview.show",
    "roofline.show",
    "compare.show",
    "compare.row",
    "commits.show",
    "api_projects.overview",
    "api_roofline.show",
    "api_comparison.show",
    "api_commits.show",
)
_UNCOUNTED = frozenset({"static", "health.show"})


def costly(view: View) -> View:
    """Decorate a view with the limit of costly ones."""
    setattr(view, _LIMIT, _COSTLY)
    return view


def limited(limit: str) -> Callable[[View], View]:
    """Decorate a view with a limit such as "20 per minute"."""

    def mark(view: View) -> View:
        setattr(view, _LIMIT, limit)
        return view

    return mark


def register(app: Flask, settings: AccessSettings) -> None:
    """Apply the limits; call after all views are registered. Raises ValueError for an unknown storage."""
    most = settings.requests_per_minute
    if most == 0:
        return
    try:
        limiter = Limiter(
            _caller_key,
            app=app,
            application_limits=[f"{most} per minute"],
            application_limits_exempt_when=_is_uncounted,
            storage_uri=settings.rate_storage,
            strategy="fixed-window",
            in_memory_fallback_enabled=not settings.rate_storage.startswith("memory"),
        )
    except ConfigurationError as error:
        raise ValueError(
            f"WARPWATCH_RATE_STORAGE is {settings.rate_storage!r}: {error}; expected a URL such as memory:// or "
            "redis://HOST:6379"
        ) from error
    for endpoint in _COSTLY_VIEWS:
        costly(app.view_functions[endpoint])
    for endpoint, view in app.view_functions.items():
        limit = getattr(view, _LIMIT, None)
        if limit is not None:
            text = f"{max(1, most // _COSTLY_DIVISOR)} per minute" if limit == _COSTLY else limit
            counted = limiter.limit(text, exempt_when=_is_uncounted)(view)
            app.view_functions[endpoint] = counted  # type: ignore[assignment]  # same signature as the view

    def refuse(error: RateLimitExceeded) -> ResponseReturnValue:
        breached = limiter.current_limit
        seconds = max(1, int(breached.reset_at - time.time())) if breached else 60
        most = count(error.limit.limit.amount, "request")  # all limits are per minute
        message = f"More than {most} per minute from one address, person or token. Try again in {seconds} s."
        return app.handle_http_exception(TooManyRequests(message, retry_after=seconds))

    app.register_error_handler(RateLimitExceeded, refuse)


def _caller_key() -> str:
    """Token or name of the caller, else the address."""
    if identity.has_bearer():
        token = identity.token()
        return f"token {token.id}" if token is not None else f"address {request.remote_addr}"
    name = identity.caller_name()
    return f"person {name}" if name is not None else f"address {request.remote_addr}"


def _is_uncounted() -> bool:
    return request.endpoint in _UNCOUNTED or (
        not identity.access_settings().proxies and is_loopback(request.remote_addr or "")
    )

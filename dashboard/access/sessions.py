"""The session's cookie: unreadable to scripts, kept from other sites, and sent encrypted wherever it can be."""

from datetime import timedelta
from urllib.parse import urlsplit

from flask import Flask, current_app, request, session
from flask.sessions import SecureCookieSessionInterface

from warpwatch.dashboard.access import csrf, requester
from warpwatch.dashboard.access.proxies import host_name
from warpwatch.dashboard.access.requester import access_settings
from warpwatch.dashboard.access_settings import AccessSettings

_OF_EVERY_ANSWER = frozenset({csrf.KEY, requester.LOGGED_IN, "_permanent"})  # the last is Flask's


def register(app: Flask, settings: AccessSettings, key: bytes) -> None:
    """Sessions that last as long as the settings say, from the login on."""
    app.secret_key = key
    app.session_interface = _Sessions()
    app.permanent_session_lifetime = timedelta(hours=settings.session_hours)
    app.config.update(SESSION_COOKIE_HTTPONLY=True, SESSION_COOKIE_SAMESITE="Lax", SESSION_REFRESH_EACH_REQUEST=False)


def says_more() -> bool:
    """Whether this request's session holds more than who this is and the token of forms: what one answer alone is to
    say, or where a login stands.
    """
    cookie = current_app.session_interface.get_cookie_name(current_app)
    return cookie in request.cookies and not session.keys() <= _OF_EVERY_ANSWER  # unread, it is no reason to vary


def is_encrypted() -> bool:
    """Whether this request came by https, up to the proxy at least."""
    public = urlsplit(access_settings().public_url or "")
    return request.is_secure or (public.scheme == "https" and host_name(request.host) == public.hostname)


class _Sessions(SecureCookieSessionInterface):
    """Flask's, with what depends on the request."""

    def get_cookie_secure(self, app: Flask) -> bool:
        return is_encrypted()

    def get_cookie_path(self, app: Flask) -> str:
        return request.script_root or "/"

    def get_cookie_name(self, app: Flask) -> str:
        # A browser takes a name with this prefix from this very host alone, not from one beside it.
        return "__Host-warpwatch" if is_encrypted() and not request.script_root else "warpwatch"

"""The session's cookie: unreadable to scripts, kept from other sites, and sent encrypted wherever it can be."""

from datetime import timedelta
from urllib.parse import urlsplit

from flask import Flask, Request, request
from flask.sessions import SecureCookieSession, SecureCookieSessionInterface

from warpwatch.dashboard.access import csrf, requester
from warpwatch.dashboard.access.local_login import SESSION_DAYS
from warpwatch.dashboard.access.proxies import host_name
from warpwatch.dashboard.access.requester import access_settings
from warpwatch.dashboard.access_settings import AccessSettings

_FLASHED = "_flashes"  # Flask's messages
_OF_LOGIN = "_state_"  # Authlib's, of logins that were begun


def register(app: Flask, settings: AccessSettings, key: bytes) -> None:
    """Sessions that last as long as the settings say, from the login on."""
    app.secret_key = key
    app.session_interface = _Sessions()
    is_local = settings.has_local_login
    app.permanent_session_lifetime = (
        timedelta(days=SESSION_DAYS) if is_local else timedelta(hours=settings.session_hours)
    )
    app.config.update(SESSION_COOKIE_HTTPONLY=True, SESSION_COOKIE_SAMESITE="Lax", SESSION_REFRESH_EACH_REQUEST=False)


def is_encrypted() -> bool:
    """Whether this request came by https, up to the proxy at least."""
    public = urlsplit(access_settings().public_url or "")
    return request.is_secure or (public.scheme == "https" and host_name(request.host) == public.hostname)


def _is_ours(opened: SecureCookieSession) -> bool:
    flashed = opened.get(_FLASHED, [])
    return (
        isinstance(opened.get(csrf.KEY, ""), str)
        and opened.get(requester.LOCAL, True) is True
        and (requester.LOGGED_IN not in opened or requester.is_a_login(opened[requester.LOGGED_IN]))
        and isinstance(flashed, list)
        and all(isinstance(each, (list, tuple)) and len(each) == 2 for each in flashed)
        and all(isinstance(value, dict) for key, value in opened.items() if key.startswith(_OF_LOGIN))
    )


class _Sessions(SecureCookieSessionInterface):
    """Flask's, with what depends on the request."""

    def open_session(self, app: Flask, request: Request) -> SecureCookieSession | None:
        """As the cookie says; a new one for a cookie of another shape, such as an earlier release's."""
        try:
            opened = super().open_session(app, request)
        except (AttributeError, TypeError, ValueError):
            opened = None
        return opened if opened is not None and _is_ours(opened) else self.session_class()

    def get_cookie_secure(self, app: Flask) -> bool:
        return is_encrypted()

    def get_cookie_path(self, app: Flask) -> str:
        return request.script_root or "/"

    def get_cookie_name(self, app: Flask) -> str:
        if requester.has_local_login():  # every port of this machine gets the cookies of all, and two dashboards differ
            port = request.host.rpartition(":")[2]
            return f"warpwatch-{port if port.isascii() and port.isdecimal() else 80}"
        # A browser takes a name with this prefix from this very host alone, not from one beside it.
        return "__Host-warpwatch" if is_encrypted() and not request.script_root else "warpwatch"

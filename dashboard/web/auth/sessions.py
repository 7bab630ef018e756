"""Session cookies, and the key that signs them."""

import contextlib
import os
import secrets
import stat
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

from flask import Flask, Request, request
from flask.sessions import SecureCookieSession, SecureCookieSessionInterface

from ...settings import AccessSettings, Settings
from . import csrf, identity
from .identity import access_settings
from .local_login import SESSION_DAYS
from .proxies import host_name

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
        and opened.get(identity.LOCAL, True) is True
        and (identity.LOGGED_IN not in opened or identity.is_a_login(opened[identity.LOGGED_IN]))
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
        if identity.has_local_login():  # every port of this machine gets the cookies of all, and two dashboards differ
            port = request.host.rpartition(":")[2]
            return f"warpwatch-{port if port.isascii() and port.isdecimal() else 80}"
        # A browser takes a name with this prefix from this very host alone, not from one beside it.
        return "__Host-warpwatch" if is_encrypted() and not request.script_root else "warpwatch"


# The key that signs sessions: given, or made once and kept beside the database; never one that others could know.

_BYTES = 32
_TO_FIX = "set WARPWATCH_SECRET_KEY (python -c 'import secrets; print(secrets.token_hex(32))' makes one)"


def secret_key(settings: Settings, sqlite_file: Path | None) -> bytes:
    """The application's key. Raises ValueError where people log in and none can be kept, or others can read it.

    Without a login a key that lives as long as the process does: only the local user has a session.
    """
    if settings.access.secret_key is not None:
        return settings.access.secret_key.encode()
    try:
        if sqlite_file is not None:
            return _kept(sqlite_file.with_name(f"{sqlite_file.name}.secret-key"))
        problem = "it is kept beside a SQLite file, and there is none"
    except OSError as error:
        problem = f"{error.filename}: {error.strerror}"
    if settings.access.login is not None:
        raise ValueError(f"there is no secret key to sign sessions with ({problem}); {_TO_FIX}")
    return secrets.token_bytes(_BYTES)


def _kept(path: Path) -> bytes:
    """The file's key; made by whichever process comes first."""
    if not path.exists():
        draft = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(secrets.token_hex(_BYTES).encode())
            with contextlib.suppress(FileExistsError):
                os.link(draft, path)  # whole, or not at all
        finally:
            draft.unlink()
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        raise ValueError(
            f"others can read {path} (mode {mode:o}), and could pass for anybody: delete it, or "
            "chmod 600 it if nobody did"
        )
    key = path.read_bytes().strip()
    if len(key) < _BYTES:
        raise ValueError(f"{path} holds no key of {_BYTES} characters; delete it, and a new one is made")
    return key

"""Session cookies and their signing key."""

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
from .identity import SESSION_DAYS, access_settings
from .proxies import host_name

_FLASHED = "_flashes"  # Flask's messages
_LOGIN_STATE = "_state_"  # Authlib's, of logins in progress


def register(app: Flask, settings: AccessSettings, key: bytes) -> None:
    """Configure sessions; they expire a fixed time after the login."""
    app.secret_key = key
    app.session_interface = _Sessions()
    is_local = settings.has_local_login
    app.permanent_session_lifetime = (
        timedelta(days=SESSION_DAYS) if is_local else timedelta(hours=settings.session_hours)
    )
    app.config.update(SESSION_COOKIE_HTTPONLY=True, SESSION_COOKIE_SAMESITE="Lax", SESSION_REFRESH_EACH_REQUEST=False)


def is_encrypted() -> bool:
    """Whether this request came by https, at least to the proxy."""
    public = urlsplit(access_settings().public_url or "")
    return request.is_secure or (public.scheme == "https" and host_name(request.host) == public.hostname)


def _is_valid(opened: SecureCookieSession) -> bool:
    flashed = opened.get(_FLASHED, [])
    return (
        isinstance(opened.get(csrf.KEY, ""), str)
        and opened.get(identity.LOCAL, True) is True
        and (identity.LOGGED_IN not in opened or identity.is_valid_login(opened[identity.LOGGED_IN]))
        and isinstance(flashed, list)
        and all(isinstance(message, (list, tuple)) and len(message) == 2 for message in flashed)
        and all(isinstance(value, dict) for key, value in opened.items() if key.startswith(_LOGIN_STATE))
    )


class _Sessions(SecureCookieSessionInterface):
    """Flask's sessions with cookie name, path and Secure by request."""

    def open_session(self, app: Flask, request: Request) -> SecureCookieSession | None:
        """The cookie's session; a new one if the cookie has another form, such as an earlier release's."""
        try:
            opened = super().open_session(app, request)
        except (AttributeError, TypeError, ValueError):
            opened = None
        return opened if opened is not None and _is_valid(opened) else self.session_class()

    def get_cookie_secure(self, app: Flask) -> bool:
        return is_encrypted()

    def get_cookie_path(self, app: Flask) -> str:
        return request.script_root or "/"

    def get_cookie_name(self, app: Flask) -> str:
        if identity.has_local_login():  # cookies ignore ports: one name per dashboard
            port = request.host.rpartition(":")[2]
            return f"warpwatch-{port if port.isascii() and port.isdecimal() else 80}"
        # Browsers accept this prefix only from the host itself, not from a sibling domain.
        return "__Host-warpwatch" if is_encrypted() and not request.script_root else "warpwatch"


_BYTES = 32
_TO_FIX = "set WARPWATCH_SECRET_KEY (create one by: python -c 'import secrets; print(secrets.token_hex(32))')"


def secret_key(settings: Settings, sqlite_file: Path | None) -> bytes:
    """The key that signs sessions, from the settings or from a file next to the SQLite database.

    Without a login a random key per process is enough. Raises ValueError if there is a login but no place for a key, or
    if others can read the file.
    """
    if settings.access.secret_key is not None:
        return settings.access.secret_key.encode()
    try:
        if sqlite_file is not None:
            return _file_key(sqlite_file.with_name(f"{sqlite_file.name}.secret-key"))
        problem = "it is stored next to a SQLite database, and there is none"
    except OSError as error:
        problem = f"{error.filename}: {error.strerror}"
    if settings.access.login is not None:
        raise ValueError(f"there is no secret key to sign sessions with ({problem}); {_TO_FIX}")
    return secrets.token_bytes(_BYTES)


def _file_key(path: Path) -> bytes:
    """The key in the file; the first process creates it."""
    if not path.exists():
        draft = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(secrets.token_hex(_BYTES).encode())
            with contextlib.suppress(FileExistsError):
                os.link(draft, path)  # atomic
        finally:
            draft.unlink()
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        raise ValueError(
            f"others can read {path} (mode {mode:o}) and forge sessions: delete it, or "
            "run chmod 600 if no other user has read it"
        )
    key = path.read_bytes().strip()
    if len(key) < _BYTES:
        raise ValueError(f"{path} has no key of {_BYTES} characters; delete it to create a new one")
    return key

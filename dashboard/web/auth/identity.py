"""Identity of the caller: API token, proxy user, session or local user; and their roles."""

import getpass
import hashlib
import secrets
import threading
import time
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from flask import Flask, current_app, g, request, session

from ...settings import AccessSettings, OpenIdLogin, ProxyLogin
from ...store.tokens import Scope, Token, use_token
from ..request_context import store
from . import proxies

SESSION_DAYS = 30
_TOKEN_BYTES = 32


class LocalLogin:
    """Unused tokens; only hashes are stored."""

    def __init__(self) -> None:
        self._hashes: set[bytes] = set()
        self._lock = threading.Lock()

    def new_token(self) -> str:
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        with self._lock:
            self._hashes.add(_hash(token))
        return token

    def redeem(self, token: str) -> bool:
        """Use up the token; False if it is unknown or used."""
        with self._lock:
            if _hash(token) not in self._hashes:
                return False
            self._hashes.remove(_hash(token))
            return True


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


class Role(StrEnum):
    """Permissions of a person; each role includes those before it."""

    READER = "reader"
    TRIAGER = "triager"  # triages, assigns, writes notes
    ADMIN = "admin"  # creates and revokes tokens

    def includes(self, other: "Role") -> bool:
        order = tuple(Role)
        return order.index(self) >= order.index(other)


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """An identified caller with a role: a user who logged in, the local user, or a token."""

    name: str
    subject: str  # unique, from the provider; names need not be
    role: Role


def role_of(settings: AccessSettings, name: str, groups: tuple[str, ...]) -> Role | None:
    """The highest role whose list has the name or one of the groups; None without read access."""
    for role, entries in (
        (Role.ADMIN, settings.admins),
        (Role.TRIAGER, settings.triagers),
        (Role.READER, settings.readers),
    ):
        if any(_matches(entry, name, groups) for entry in entries):
            return role
    return None if settings.reading_requires_login else Role.READER


def relevant_groups(settings: AccessSettings, groups: tuple[str, ...]) -> tuple[str, ...]:
    """The groups that the settings name: all groups of a person may exceed a cookie's 4 KB."""
    known = {*settings.admins, *settings.triagers, *settings.readers}
    return tuple(group for group in groups if f"group:{group}" in known)


def _matches(entry: str, name: str, groups: tuple[str, ...]) -> bool:
    """Names are case-insensitive, like mail addresses; groups are not."""
    if entry.startswith("group:"):
        return entry.removeprefix("group:") in groups
    if entry.startswith("*@"):
        return name.count("@") == 1 and name.casefold().endswith(entry[1:].casefold())
    return entry == "*" or entry.casefold() == name.casefold()


_WITHOUT_PROJECT = frozenset({"api_document.openapi"})
_ROLES = {Scope.READ: Role.READER, Scope.TRIAGE: Role.TRIAGER}
LOCAL = "local"  # session key: True after a login by the link of `warpwatch serve`
LOGGED_IN = "person"  # session key: name, subject, groups, time (seconds since 1970)


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Access settings and the local user of an application."""

    settings: AccessSettings
    local_name: str
    local_login: LocalLogin


def register(app: Flask, settings: AccessSettings) -> None:
    """Store the settings in the application; provide `person()`, `has_role("triager")` and others to templates."""
    app.extensions["access"] = Access(settings=settings, local_name=_user_name(), local_login=LocalLogin())
    app.jinja_env.globals.update(
        person=person,
        has_role=has_role,
        can_log_in=can_log_in,
        is_logged_in=is_logged_in,
        has_local_login=has_local_login,
    )


def access_settings() -> AccessSettings:
    return _access().settings


def person() -> Person | None:
    """The caller; None if anonymous or without a role."""
    if "person" not in g:
        name, subject, role = _identify()
        if name is None or subject is None or role is None:
            g.person = None
        else:
            g.person = Person(name=name, subject=subject, role=role)
        g.caller_name = name
    caller: Person | None = g.person
    return caller


def caller_name() -> str | None:
    """Name of the caller, with or without a role; None if anonymous."""
    person()
    name: str | None = g.caller_name
    return name


def has_role(role: Role | str) -> bool:
    """Whether the caller has at least this role."""
    caller = person()
    if caller is not None:
        return caller.role.includes(Role(role))
    return Role(role) is Role.READER and not access_settings().reading_requires_login


def can_log_in() -> bool:
    """Whether users log in at an OpenID provider."""
    return isinstance(access_settings().login, OpenIdLogin)


def is_logged_in() -> bool:
    """Whether the caller has a session, which logging out ends."""
    return is_local() or (can_log_in() and _session_login() is not None)


def log_in(name: str, subject: str, groups: tuple[str, ...]) -> None:
    """Start a new session for this person."""
    session.clear()
    session.permanent = True
    session[LOGGED_IN] = {"name": name, "subject": subject, "groups": list(groups), "at": int(time.time())}


def log_out() -> None:
    """End the session in this browser."""
    session.clear()


def has_bearer() -> bool:
    """Whether the request has a bearer token; sessions are then ignored."""
    return request.authorization is not None and request.authorization.type == "bearer"


def token() -> Token | None:
    """The request's token; None if absent or invalid."""
    if "token" not in g:
        text = request.authorization.token if request.authorization is not None and has_bearer() else None
        g.token = use_token(store(), text, now_ms=int(time.time() * 1000)) if text else None
    used: Token | None = g.token
    return used


def is_local() -> bool:
    """Whether this browser logged in by the link of `warpwatch serve`."""
    return has_local_login() and LOCAL in session


def has_local_login() -> bool:
    """Whether the link of `warpwatch serve` logs in: no other login, no proxy, and a loopback address."""
    return access_settings().has_local_login


def local_link_token() -> str:
    """A one-time token for a new link."""
    return _access().local_login.new_token()


def log_in_locally(token: str) -> bool:
    """Start the local user's session; False if the token is invalid or used."""
    if not has_local_login() or not _access().local_login.redeem(token):
        return False
    session.clear()
    session.permanent = True
    session[LOCAL] = True
    return True


def _access() -> Access:
    access = current_app.extensions["access"]
    assert isinstance(access, Access)
    return access


def _identify() -> tuple[str | None, str | None, Role | None]:
    """Name, subject and role of the caller; name and subject are None if anonymous."""
    settings = access_settings()
    if has_bearer():
        used = token()
        if used is None:
            return None, None, None
        is_allowed = used.project == (request.view_args or {}).get("project") or request.endpoint in _WITHOUT_PROJECT
        return f"token {used.name}", f"token {used.id}", _ROLES.get(used.scope) if is_allowed else None
    if is_local():
        return _access().local_name, "local", Role.ADMIN
    if isinstance(settings.login, ProxyLogin):
        name, groups = proxies.proxy_user(settings.login)
        return name, f"proxy {name}", role_of(settings, name, groups) if name else None
    login = _session_login()
    if login is None:
        return None, None, None
    return login["name"], login["subject"], role_of(settings, login["name"], tuple(login["groups"]))


def _session_login() -> dict[str, Any] | None:
    login: dict[str, Any] | None = session.get(LOGGED_IN) if can_log_in() else None
    if login is None or time.time() - login["at"] > access_settings().session_hours * 3600:
        return None
    return login


def is_valid_login(entry: object) -> bool:
    """Whether the session's entry has the form that `log_in` writes; earlier releases wrote another."""
    return (
        isinstance(entry, dict)
        and all(isinstance(entry.get(key), str) for key in ("name", "subject"))
        and isinstance(entry.get("groups"), list)
        and all(isinstance(group, str) for group in entry["groups"])
        and isinstance(entry.get("at"), int)
    )


def _user_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a uid without a name, as in containers
        return "local"

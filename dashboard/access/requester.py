"""Identify the caller: API token, local login, proxy user or session."""

import getpass
import time
from dataclasses import dataclass
from typing import Any

from flask import Flask, current_app, g, request, session

from warpwatch.dashboard.access import proxies
from warpwatch.dashboard.access.local_login import LocalLogin
from warpwatch.dashboard.access.roles import Person, Role, role_of
from warpwatch.dashboard.access_settings import AccessSettings, OpenIdLogin, ProxyLogin
from warpwatch.dashboard.pages.shared import store
from warpwatch.dashboard.store.tokens import Scope, Token, use_token

_OF_EVERY_PROJECT = frozenset({"api_document.openapi"})  # which names none
_ROLES = {Scope.READ: Role.READER, Scope.TRIAGE: Role.TRIAGER}
LOCAL = "local"  # of the session: true where a link of `warpwatch serve` began it
LOGGED_IN = "person"  # of the session: name, subject, groups, when (seconds since 1970)


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """What the application knows of access: its settings, and the local user."""

    settings: AccessSettings
    local_name: str
    local_login: LocalLogin


def register(app: Flask, settings: AccessSettings) -> None:
    """Tells the application its settings, and templates `person()`, `may("triager")` and more."""
    app.extensions["access"] = Access(settings=settings, local_name=_user_name(), local_login=LocalLogin())
    app.jinja_env.globals.update(person=person, may=may, can_log_in=can_log_in, is_logged_in=is_logged_in,
                                 has_local_login=has_local_login)  # fmt: skip


def access_settings() -> AccessSettings:
    """The application's."""
    return _access().settings


def person() -> Person | None:
    """Who makes this request; None for one whose name we do not know, or who has no role here."""
    if "person" not in g:
        name, subject, role = _named()
        if name is None or subject is None or role is None:
            g.person = None
        else:
            g.person = Person(name=name, subject=subject, role=role)
        g.known_as = name
    found: Person | None = g.person
    return found


def known_as() -> str | None:
    """The name of whoever makes this request, with a role here or without."""
    person()
    found: str | None = g.known_as
    return found


def may(role: Role | str) -> bool:
    """Whether whoever makes this request has at least this role."""
    found = person()
    if found is not None:
        return found.role.includes(Role(role))
    return Role(role) is Role.READER and not access_settings().reading_wants_login


def can_log_in() -> bool:
    """Whether this dashboard has a login page that leads somewhere."""
    return isinstance(access_settings().login, OpenIdLogin)


def is_logged_in() -> bool:
    """Whether a session of ours says who this is, which logging out ends."""
    return is_local() or (can_log_in() and _logged_in() is not None)


def log_in(name: str, subject: str, groups: tuple[str, ...]) -> None:
    """Begins a session of this person's, and nothing of an earlier one stays in it."""
    session.clear()
    session.permanent = True
    session[LOGGED_IN] = {"name": name, "subject": subject, "groups": list(groups), "at": int(time.time())}


def log_out() -> None:
    """Ends the session in this browser."""
    session.clear()


def has_bearer() -> bool:
    """Whether a program asks, with a token; it is never also somebody else."""
    return request.authorization is not None and request.authorization.type == "bearer"


def token() -> Token | None:
    """The token that the request brings, if it works."""
    if "token" not in g:
        given = request.authorization.token if request.authorization is not None and has_bearer() else None
        g.token = use_token(store(), given, now_ms=int(time.time() * 1000)) if given else None
    found: Token | None = g.token
    return found


def is_local() -> bool:
    """Whether this browser used a link of `warpwatch serve`, on a server that listens to this machine alone."""
    return has_local_login() and LOCAL in session


def has_local_login() -> bool:
    """Whether people log in by such a link: there is no other login, no proxy, and the address is a loopback one."""
    return access_settings().has_local_login


def local_link_token() -> str:
    """A token for a further link."""
    return _access().local_login.new_token()


def log_in_locally(token: str) -> bool:
    """Begin the local user's session if the token is a link's that nobody used yet; else change nothing."""
    if not has_local_login() or not _access().local_login.redeem(token):
        return False
    session.clear()
    session.permanent = True
    session[LOCAL] = True
    return True


def _access() -> Access:
    found = current_app.extensions["access"]
    assert isinstance(found, Access)
    return found


def _named() -> tuple[str | None, str | None, Role | None]:
    """Name, subject and role of whoever makes this request."""
    settings = access_settings()
    if has_bearer():
        found = token()
        if found is None:
            return None, None, None
        is_for = found.project == (request.view_args or {}).get("project") or request.endpoint in _OF_EVERY_PROJECT
        return f"token {found.name}", f"token {found.id}", _ROLES.get(found.scope) if is_for else None
    if is_local():
        return _access().local_name, "local", Role.ADMIN
    if isinstance(settings.login, ProxyLogin):
        name, groups = proxies.named(settings.login)
        return name, f"proxy {name}", role_of(settings, name, groups) if name else None
    said = _logged_in()
    if said is None:
        return None, None, None
    return said["name"], said["subject"], role_of(settings, said["name"], tuple(said["groups"]))


def _logged_in() -> dict[str, Any] | None:
    said: dict[str, Any] | None = session.get(LOGGED_IN) if can_log_in() else None
    if said is None or time.time() - said["at"] > access_settings().session_hours * 3600:
        return None
    return said


def is_a_login(said: object) -> bool:
    """Whether a session's entry is what `log_in` writes; an earlier release may have written another."""
    return (
        isinstance(said, dict)
        and all(isinstance(said.get(key), str) for key in ("name", "subject"))
        and isinstance(said.get("groups"), list)
        and all(isinstance(group, str) for group in said["groups"])
        and isinstance(said.get("at"), int)
    )


def _user_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a number without a name, as in containers
        return "local"

"""Who makes this request."""

import getpass
import ipaddress
from dataclasses import dataclass

from flask import Flask, current_app, g, request

from warpwatch.dashboard.access.roles import Person, Role
from warpwatch.dashboard.access_settings import AccessSettings

_FORWARDED = ("Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-IP", "Via")


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """What the application knows of access: its settings, and who sits at this machine."""

    settings: AccessSettings
    local_name: str


def register(app: Flask, settings: AccessSettings) -> None:
    """Tells the application its settings, and templates `person()` and `may("triager")`."""
    app.extensions["access"] = Access(settings=settings, local_name=_user_name())
    app.jinja_env.globals.update(person=person, may=may)


def access() -> Access:
    """The application's access."""
    found = current_app.extensions["access"]
    assert isinstance(found, Access)
    return found


def person() -> Person | None:
    """Who makes this request; None for a reader whose name we do not know."""
    if "person" not in g:
        g.person = None if has_bearer() else _at_this_machine()
    found: Person | None = g.person
    return found


def may(role: Role | str) -> bool:
    """Whether whoever makes this request has at least this role."""
    found = person()
    return Role(role) is Role.READER if found is None else found.role.includes(Role(role))


def has_bearer() -> bool:
    """Whether a program asks, with a token; it is never also somebody else."""
    return request.authorization is not None and request.authorization.type == "bearer"


def _at_this_machine() -> Person | None:
    """Whoever reaches a server that listens to this machine alone sits at it, unless a proxy stands between."""
    address = access().settings.served_on
    if address is None or not is_loopback(address) or any(name in request.headers for name in _FORWARDED):
        return None
    return Person(name=access().local_name, role=Role.ADMIN)


def is_loopback(host: str) -> bool:
    """Whether the address or name is this machine's own alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _user_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a number without a name, as in containers
        return "local"

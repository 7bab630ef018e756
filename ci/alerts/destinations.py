"""Destinations of alerts: their addresses, and the routes that lead to them."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from urllib.parse import urlsplit

from ..policy.policy_model import AlertsTable, Destination, Route
from .channels import Delivered, check_address, deliver, deliver_to_github
from .message import DeliveryError, Message

# Addresses and tokens are read from the environment when a message is sent. The store knows a destination by a name
# without secrets, which stays the same when a token is rotated, so that threads continue.

_MAIL = re.compile(
    r"(?P<scheme>mailtos?://)((?P<user>[^:/@?#]*)(:[^/@?#]*)?@)?(?P<host>[^:/@?#]+(:\d+)?)(?P<to>/[^?#]*)?"
    r"(\?(?P<settings>[^#]*))?"
)
_ADDRESSES = ("from", "to", "cc", "bcc")  # settings of mail; others may be secrets


def address_names(addresses: Sequence[str]) -> dict[str, str]:
    """Addresses by their names without secrets; equal names are numbered in the order of the command line."""
    named: dict[str, str] = {}
    for address in dict.fromkeys(addresses):
        name = first = _without_secrets(address)
        number = 1
        while name in named:
            number += 1
            name = f"{first} ({number})"
        named[name] = address
    return named


def _without_secrets(address: str) -> str:
    """The host of a webhook, the addresses of a mail, else the scheme: any other part may be a token."""
    scheme = address.partition("://")[0] + "://"
    if scheme in {"http://", "https://"}:
        parts = urlsplit(address)
        host = parts.netloc.rpartition("@")[2]
        is_open = parts.netloc == host and parts.path in {"", "/"} and not parts.query and not parts.fragment
        return address if is_open else scheme + host
    mail = _MAIL.fullmatch(address)
    if mail is None:
        return scheme
    user = f"{mail['user']}@" if mail["user"] else ""
    open_settings = "&".join(
        each for each in (mail["settings"] or "").split("&") if each.partition("=")[0] in _ADDRESSES
    )
    return f"{scheme}{user}{mail['host']}{mail['to'] or ''}" + (f"?{open_settings}" if open_settings else "")


class Destinations:
    """Destinations of the policy file and the command line. Raises DeliveryError for an invalid one."""

    def __init__(self, policy: AlertsTable, given: Sequence[str], environment: Mapping[str, str]) -> None:
        for address in given:
            check_address(address)
        self.given = tuple(given)
        self._given = address_names(given)
        self._named = {each.name: each for each in policy.destination}
        self._environment = environment
        for each in policy.destination:
            if each.url_env is not None:
                check_address(self._secret(each.url_env, each.name))
            else:
                self._secret(each.token_env, each.name)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all destinations, as in the outbox."""
        return (*self._given, *self._named)

    def deliver(self, message: Message, destination: str, receipt: Callable[[], str | None]) -> Delivered:
        """Send once. Raises DeliveryError."""
        named = self._named.get(destination)
        if named is None:
            return deliver(message, self._given[destination])
        if named.url_env is not None:
            return deliver(message, self._secret(named.url_env, named.name))
        return self._as_issue(message, named, receipt)

    def _as_issue(self, message: Message, issues: Destination, receipt: Callable[[], str | None]) -> Delivered:
        return deliver_to_github(message, issues, self._secret(issues.token_env, issues.name), receipt)

    def _secret(self, variable: str, name: str) -> str:
        value = self._environment.get(variable)
        if not value:
            raise DeliveryError(f"destination {name!r}: the environment has no {variable}; set it, or take it out")
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutingFacts:
    """The facts of an alert that routes match."""

    kind: str  # policy_model.KINDS
    machine: str | None  # None: of the whole project
    kernels: Collection[str]
    owners: Collection[str]


def destinations(matter: RoutingFacts, policy: AlertsTable, given: Sequence[str]) -> tuple[str, ...]:
    """Names of the destinations of all matching routes, else of the default ones; `given` addresses get every alert."""
    matching = [name for route in policy.route if _matches(route, matter) for name in route.to]
    return tuple(dict.fromkeys((*address_names(given), *(matching or policy.to))))


def _matches(route: Route, matter: RoutingFacts) -> bool:
    return (
        (not route.kind or matter.kind in route.kind)
        and _any(route.machine, (matter.machine,) if matter.machine is not None else ())
        and _any(route.kernel, matter.kernels)
        and _any(route.owner, matter.owners)
    )


def _any(globs: tuple[str, ...], values: Collection[str]) -> bool:
    """Whether a value matches a glob, or there are no globs."""
    return not globs or any(fnmatchcase(value, glob) for value in values for glob in globs)

"""Destinations of alerts: their addresses, and the routes that lead to them."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from urllib.parse import urlsplit

from ..policy.policy_model import AlertsTable, Destination, Route
from .channels.delivery import Delivered, check_address, deliver, deliver_to_github
from .message import DeliveryError, Message

# The destinations of one program: those of the policy file by name, and the addresses of its command line.
#
# Addresses and tokens are taken from the environment when a message goes out. The store knows every destination by a
# name without secrets, which stays the same when a token is replaced: what was told there goes on there.

_MAIL = re.compile(
    r"(?P<scheme>mailtos?://)((?P<user>[^:/@?#]*)(:[^/@?#]*)?@)?(?P<host>[^:/@?#]+(:\d+)?)(?P<to>/[^?#]*)?"
    r"(\?(?P<settings>[^#]*))?"
)
_ADDRESSES = ("from", "to", "cc", "bcc")  # settings of mail; others may be secrets


def address_names(addresses: Sequence[str]) -> dict[str, str]:
    """Names of addresses, with the addresses: what is no secret of each. Of several with one name the later ones get
    numbers, in the order of the command line."""
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
    """A webhook's host, a mail's addresses, and of other services the scheme: each part of the rest may be a token."""
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
    told = "&".join(each for each in (mail["settings"] or "").split("&") if each.partition("=")[0] in _ADDRESSES)
    return f"{scheme}{user}{mail['host']}{mail['to'] or ''}" + (f"?{told}" if told else "")


class Places:
    """Where messages may go. Raises DeliveryError for one that nothing can be sent to."""

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
        """All destinations, as the outbox calls them."""
        return (*self._given, *self._named)

    def deliver(self, message: Message, destination: str, receipt: Callable[[], str | None]) -> Delivered:
        """Send once. Raises DeliveryError."""
        its = self._named.get(destination)
        if its is None:
            return deliver(message, self._given[destination])
        if its.url_env is not None:
            return deliver(message, self._secret(its.url_env, its.name))
        return self._as_issue(message, its, receipt)

    def _as_issue(self, message: Message, its: Destination, receipt: Callable[[], str | None]) -> Delivered:
        return deliver_to_github(message, its, self._secret(its.token_env, its.name), receipt)

    def _secret(self, variable: str, name: str) -> str:
        value = self._environment.get(variable)
        if not value:
            raise DeliveryError(f"destination {name!r}: the environment has no {variable}; set it, or take it out")
        return value


# Which destinations an alert goes to: those of every route that matches it, else those for all the rest.


@dataclass(frozen=True, slots=True, kw_only=True)
class Matter:
    """What an alert is about, as routes ask."""

    kind: str  # policy.alerts.KINDS
    machine: str | None  # None: of all
    kernels: Collection[str]
    owners: Collection[str]


def destinations(matter: Matter, policy: AlertsTable, given: Sequence[str]) -> tuple[str, ...]:
    """The names of destinations, each once. `given` are addresses of the command line, which get everything."""
    matching = [name for route in policy.route if _matches(route, matter) for name in route.to]
    return tuple(dict.fromkeys((*address_names(given), *(matching or policy.to))))


def _matches(route: Route, matter: Matter) -> bool:
    return (
        (not route.kind or matter.kind in route.kind)
        and _any(route.machine, (matter.machine,) if matter.machine is not None else ())
        and _any(route.kernel, matter.kernels)
        and _any(route.owner, matter.owners)
    )


def _any(globs: tuple[str, ...], values: Collection[str]) -> bool:
    """Without globs everything goes; with some, one value must."""
    return not globs or any(fnmatchcase(value, glob) for value in values for glob in globs)

"""Reverse proxies that are trusted, and the host names that are answered."""

import ipaddress
import socket
from collections.abc import Iterable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from flask import Flask, abort, request
from werkzeug.middleware.proxy_fix import ProxyFix

from ...settings import AccessSettings, Network, ProxyLogin

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment


_TRUSTED = "warpwatch.trusted_proxy"
_LONGEST_NAME = 200


def register_proxies(app: Flask, settings: AccessSettings) -> None:
    """Put the proxies' rule in front of the application."""
    if settings.proxies:
        prefix = urlsplit(settings.public_url or "").path
        app.wsgi_app = TrustedProxies(app.wsgi_app, settings.proxies, prefix)  # type: ignore[method-assign]


class TrustedProxies:
    """Reads X-Forwarded-For, -Proto and -Host where the peer is one of these proxies, and nowhere else.

    X-Forwarded-Prefix counts only where it is the path of the public address: a proxy that sets none may pass on what
    its client sent, and links would lead wherever that says.
    """

    def __init__(self, app: "WSGIApplication", proxies: tuple[Network, ...], prefix: str) -> None:
        self._plain = app
        self._fixed = ProxyFix(app, x_for=1, x_proto=1, x_host=1, x_prefix=1)
        self._proxies = proxies
        self._prefix = prefix

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        """Answers a request."""
        environ[_TRUSTED] = self._trusts(environ.get("REMOTE_ADDR", ""))
        if environ.get("HTTP_X_FORWARDED_PREFIX", "").rstrip("/") != self._prefix:
            environ.pop("HTTP_X_FORWARDED_PREFIX", None)
        return (self._fixed if environ[_TRUSTED] else self._plain)(environ, start_response)

    def _trusts(self, peer: str) -> bool:
        try:
            address = ipaddress.ip_address(peer)
        except ValueError:
            return False  # a Unix socket's peer has none
        mapped = getattr(address, "ipv4_mapped", None)  # how a socket for both kinds tells IPv4
        return any((mapped or address) in network for network in self._proxies)


def named(login: ProxyLogin) -> tuple[str | None, tuple[str, ...]]:
    """The name and groups that a trusted proxy gives this request; nobody where another peer says so.

    A name with a comma is two headers, of which the client may have sent one: then it is nobody.
    """
    name = _text(request.headers.get(login.user_header, ""))
    if not request.environ.get(_TRUSTED) or "," in name:
        return None, ()
    groups = _text(request.headers.get(login.groups_header, "")).split(",") if login.groups_header else []
    return name[:_LONGEST_NAME] or None, tuple(group.strip() for group in groups if group.strip())


def host_name(host: str) -> str:
    """A Host header without its port: `[::1]:80` is `::1`."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].lower().rstrip(".")


def _text(header: str) -> str:
    """Servers hand bytes on as Latin-1; names are UTF-8 where they are not ASCII."""
    try:
        return header.encode("latin-1").decode("utf-8").strip()
    except UnicodeError:
        return header.strip()


# By which names this dashboard is asked.
#
# A page of somebody else's can let its own host name point to 127.0.0.1, and would then read the dashboard as its own
# (DNS rebinding). Its Host header still has that name. Addresses in numbers cannot be pointed elsewhere.


def register_hosts(app: Flask, settings: AccessSettings) -> None:
    """Refuse requests under names that are not ours."""
    own = socket.gethostname().lower()
    public = urlsplit(settings.public_url).hostname if settings.public_url else None
    names = frozenset({"localhost", own, own.partition(".")[0], *(host.lower() for host in settings.hosts), public})

    @app.before_request
    def _check() -> None:
        name = host_name(request.headers.get("Host", "") if not request.host else request.host)
        if name not in names and not name.endswith(".localhost") and not _is_number(name):
            abort(
                400,
                f"This dashboard does not go by the name “{name[:100]}”. If it should, start it with "
                "WARPWATCH_HOSTS or WARPWATCH_URL set to that.",
            )


def _is_number(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True

"""Trusted reverse proxies and allowed host names."""

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
_MAX_NAME_LENGTH = 200


def register_proxies(app: Flask, settings: AccessSettings) -> None:
    """Wrap the application in `TrustedProxies` if proxies are configured."""
    if settings.proxies:
        prefix = urlsplit(settings.public_url or "").path
        app.wsgi_app = TrustedProxies(app.wsgi_app, settings.proxies, prefix)  # type: ignore[method-assign]


class TrustedProxies:
    """Read X-Forwarded-For, -Proto and -Host from these proxies only.

    X-Forwarded-Prefix counts only if it is the path of the public URL: a proxy that sets none may pass on the client's,
    and links would lead there.
    """

    def __init__(self, app: "WSGIApplication", proxies: tuple[Network, ...], prefix: str) -> None:
        self._plain = app
        self._fixed = ProxyFix(app, x_for=1, x_proto=1, x_host=1, x_prefix=1)
        self._proxies = proxies
        self._prefix = prefix

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        environ[_TRUSTED] = self._trusts(environ.get("REMOTE_ADDR", ""))
        if environ.get("HTTP_X_FORWARDED_PREFIX", "").rstrip("/") != self._prefix:
            environ.pop("HTTP_X_FORWARDED_PREFIX", None)
        return (self._fixed if environ[_TRUSTED] else self._plain)(environ, start_response)

    def _trusts(self, peer: str) -> bool:
        try:
            address = ipaddress.ip_address(peer)
        except ValueError:
            return False  # the peer of a Unix socket
        mapped = getattr(address, "ipv4_mapped", None)  # IPv4 on a dual-stack socket
        return any((mapped or address) in network for network in self._proxies)


def proxy_user(login: ProxyLogin) -> tuple[str | None, tuple[str, ...]]:
    """User name and groups from a trusted proxy's headers; None and () from any other peer.

    A name with a comma is two headers, one of which may be from the client: None.
    """
    name = _text(request.headers.get(login.user_header, ""))
    if not request.environ.get(_TRUSTED) or "," in name:
        return None, ()
    groups = _text(request.headers.get(login.groups_header, "")).split(",") if login.groups_header else []
    return name[:_MAX_NAME_LENGTH] or None, tuple(group.strip() for group in groups if group.strip())


def host_name(host: str) -> str:
    """Host header without the port: `[::1]:80` is `::1`."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].lower().rstrip(".")


def _text(header: str) -> str:
    """Decode as UTF-8: WSGI passes header bytes as Latin-1."""
    try:
        return header.encode("latin-1").decode("utf-8").strip()
    except UnicodeError:
        return header.strip()


# Against DNS rebinding: a foreign page may point its host name to 127.0.0.1 and read the dashboard, but its Host header
# has that name. Numeric addresses cannot be redirected.


def register_hosts(app: Flask, settings: AccessSettings) -> None:
    """Reject requests with other host names."""
    own = socket.gethostname().lower()
    public = urlsplit(settings.public_url).hostname if settings.public_url else None
    names = frozenset({"localhost", own, own.partition(".")[0], *(host.lower() for host in settings.hosts), public})

    @app.before_request
    def _check() -> None:
        name = host_name(request.headers.get("Host", "") if not request.host else request.host)
        if name not in names and not name.endswith(".localhost") and not _is_address(name):
            abort(
                400,
                f"The host name “{name[:100]}” is not allowed here. To allow it, set WARPWATCH_HOSTS or WARPWATCH_URL.",
            )


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True

"""By which names this dashboard is asked.

A page of somebody else's can let its own host name point to 127.0.0.1, and would then read the dashboard as its own
(DNS rebinding). Its Host header still has that name. Addresses in numbers cannot be pointed elsewhere.
"""

import ipaddress
import socket
from urllib.parse import urlsplit

from flask import Flask, abort, request

from warpwatch.dashboard.access.proxies import host_name
from warpwatch.dashboard.access_settings import AccessSettings


def register(app: Flask, settings: AccessSettings) -> None:
    """Refuse requests under names that are not ours."""
    own = socket.gethostname().lower()
    public = urlsplit(settings.public_url).hostname if settings.public_url else None
    names = frozenset({"localhost", own, own.partition(".")[0], *(host.lower() for host in settings.hosts), public})

    @app.before_request
    def _check() -> None:
        name = host_name(request.headers.get("Host", "") if not request.host else request.host)
        if name not in names and not name.endswith(".localhost") and not _is_number(name):
            abort(400, f"This dashboard does not go by the name “{name[:100]}”. If it should, start it with "
                       "WARPWATCH_HOSTS or WARPWATCH_URL set to that.")  # fmt: skip


def _is_number(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True

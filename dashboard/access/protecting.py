"""Everything of access put into an application, in the order in which a request meets it."""

from pathlib import Path

from flask import Flask

from warpwatch.dashboard.access import csrf, guard, hosts, proxies, requester, sessions
from warpwatch.dashboard.access.secret_key import secret_key
from warpwatch.dashboard.access_settings import OpenIdLogin
from warpwatch.dashboard.settings import Settings


def protect(app: Flask, settings: Settings, sqlite_file: Path | None) -> None:
    """Proxies, host names, sessions, the reader's door, forged requests. Raises ValueError if a secret is missing."""
    proxies.register(app, settings.access)
    sessions.register(app, settings.access, secret_key(settings, sqlite_file))
    requester.register(app, settings.access)
    if isinstance(settings.access.login, OpenIdLogin):
        from warpwatch.dashboard.access import openid  # a quarter of a second to load

        openid.register(app, settings.access.login)
    hosts.register(app, settings.access)
    guard.register(app)
    csrf.register(app)

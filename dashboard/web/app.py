"""The dashboard as a Flask application: one blueprint a page, assets of our own, no request that leaves the machine."""

from collections.abc import Iterable
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from flask import Flask
from jinja2 import StrictUndefined

from ..importers.input_files import remove_abandoned
from ..settings import OpenIdLogin, Settings
from ..store import Store
from . import errors, headers, template_filters
from .api import RESOURCES
from .auth import csrf, identity, permissions, proxies, rate_limits, sessions
from .auth.sessions import secret_key
from .pages import (
    badges,
    commits,
    compare,
    health,
    kernel,
    login,
    machines,
    notes,
    overview,
    point,
    regressions,
    release,
    roofline,
    search,
    series,
    tokens,
    triage,
)
from .request_context import register_globals
from .urls import ProjectName

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

# Everything of access put into an application, in the order in which a request meets it.


def protect(app: Flask, settings: Settings, sqlite_file: Path | None) -> None:
    """Proxies, host names, sessions, the reader's door, forged requests. Raises ValueError if a secret is missing."""
    proxies.register_proxies(app, settings.access)
    sessions.register(app, settings.access, secret_key(settings, sqlite_file))
    identity.register(app, settings.access)
    if isinstance(settings.access.login, OpenIdLogin):
        from .auth import oidc  # a quarter of a second to load

        oidc.register(app, settings.access.login)
    proxies.register_hosts(app, settings.access)
    permissions.register(app)
    csrf.register(app)


_PAGES = (
    search,
    overview,
    series,
    roofline,
    regressions,
    commits,
    machines,
    point,
    kernel,
    compare,
    release,
    badges,
    health,
    triage,
    notes,
    login,
    tokens,
)
_YEAR_S = 365 * 24 * 3600


def create_app(settings: Settings | None = None) -> Flask:
    """The dashboard, ready to serve. Tests pass their own settings; production reads the environment.

    Raises StoreError if the database cannot be opened, ValueError if a secret is missing.
    """
    app = Flask(__name__)
    settings = settings or Settings.from_env()
    remove_abandoned()
    app.extensions["store"] = Store(settings.database)
    app.config["THRESHOLD"] = settings.threshold
    app.config["MAX_CONTENT_LENGTH"] = settings.upload_limit_mib * 2**20
    app.config["SEND_FILE_MAX_AGE_DEFAULT"] = _YEAR_S  # static URLs carry the file's time, see web/request_context.py
    app.jinja_env.undefined = StrictUndefined
    app.jinja_env.trim_blocks = True
    app.jinja_env.lstrip_blocks = True
    app.json.sort_keys = False  # type: ignore[attr-defined]
    app.jinja_env.policies["json.dumps_kwargs"] = {"sort_keys": False}
    app.url_map.converters["project"] = ProjectName
    headers.register_compression(app)
    template_filters.register(app)
    headers.register_headers(app)
    protect(app, settings, app.extensions["store"].sqlite_file)
    register_globals(app)
    for module in (*_PAGES, *RESOURCES):
        app.register_blueprint(module.bp)
    app.register_blueprint(series.short_bp)
    rate_limits.register(app, settings.access)
    errors.register(app)
    headers.register_conditional(app)
    _read_at_one_moment(app)
    return app


def _read_at_one_moment(app: Flask) -> None:
    """Requests that only read look each generation up once."""
    store, answer = app.extensions["store"], app.wsgi_app

    def wsgi_app(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        with store.one_moment() if environ["REQUEST_METHOD"] in {"GET", "HEAD"} else nullcontext():
            return answer(environ, start_response)

    app.wsgi_app = wsgi_app  # type: ignore[method-assign]

"""The dashboard as a Flask application: one blueprint a page, assets of our own, no request that leaves the machine."""

from flask import Flask
from jinja2 import StrictUndefined

from warpwatch.dashboard import delivery, errors, formatting, security
from warpwatch.dashboard.access import rate_limits
from warpwatch.dashboard.access.protecting import protect
from warpwatch.dashboard.api import resources
from warpwatch.dashboard.importers.scratch import remove_abandoned
from warpwatch.dashboard.pages import (
    badges,
    commits,
    compare,
    health,
    images,
    kernel,
    login,
    machines,
    notes,
    overview,
    point,
    regressions,
    roofline,
    search,
    series,
    tokens,
    triage,
)
from warpwatch.dashboard.pages.addresses import ProjectName
from warpwatch.dashboard.pages.shared import register_globals
from warpwatch.dashboard.settings import Settings
from warpwatch.dashboard.store import Store

_PAGES = (
    search, overview, series, roofline, regressions, commits, machines, point, kernel, compare, badges, images, health,
    triage, notes, login, tokens,
)  # fmt: skip
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
    app.config["SEND_FILE_MAX_AGE_DEFAULT"] = _YEAR_S  # static URLs carry the file's time, see pages/shared.py
    app.jinja_env.undefined = StrictUndefined
    app.jinja_env.trim_blocks = True
    app.jinja_env.lstrip_blocks = True
    app.json.sort_keys = False  # type: ignore[attr-defined]
    app.jinja_env.policies["json.dumps_kwargs"] = {"sort_keys": False}
    app.url_map.converters["project"] = ProjectName
    delivery.register(app)
    formatting.register(app)
    security.register(app)
    protect(app, settings, app.extensions["store"].sqlite_file)
    register_globals(app)
    for page in _PAGES:
        app.register_blueprint(page.bp)
    resources.register(app)
    rate_limits.register(app, settings.access)
    errors.register(app)
    delivery.register_conditional(app)
    return app

"""The resources of the API, in the order of the OpenAPI document. A new one is a module and a line here."""

from flask import Flask

from . import (
    alerts,
    canaries,
    commits,
    comparison,
    document_pages,
    history,
    limits,
    machines,
    measurement,
    overview,
    projects,
    regressions,
    release,
    results,
    roofline,
    series,
)

ALL = (
    projects,
    overview,
    series,
    history,
    commits,
    comparison,
    release,
    regressions,
    alerts,
    roofline,
    machines,
    canaries,
    measurement,
    limits,
    results,
    document_pages,
)


def register(app: Flask) -> None:
    """Register the blueprints of all resources."""
    for resource in ALL:
        app.register_blueprint(resource.bp)

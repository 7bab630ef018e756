"""The resources of the API, in the order of the OpenAPI document. A new one is a module and a line here."""

from flask import Flask

from . import (
    commits,
    comparison,
    limits,
    machines,
    openapi_document,
    projects,
    regressions,
    results,
    roofline,
    series,
)

ALL = (
    projects,
    series,
    commits,
    comparison,
    regressions,
    roofline,
    machines,
    limits,
    results,
    openapi_document,
)


def register(app: Flask) -> None:
    """Register the blueprints of all resources."""
    for resource in ALL:
        app.register_blueprint(resource.bp)

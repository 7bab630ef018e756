"""`/api/openapi.json`, and `/api/`: the same document as a page that people read."""

from typing import Any

import orjson
from flask import Blueprint, Response, current_app, render_template

from warpwatch.dashboard.api.document import document
from warpwatch.dashboard.api.reading import coded, sections

bp = Blueprint("api_document", __name__, url_prefix="/api")


@bp.get("/openapi.json")
def openapi() -> Response:
    """The OpenAPI 3.1 document."""
    return Response(orjson.dumps(_document()) + b"\n", content_type="application/json")


@bp.get("/")
def show() -> str:
    """Every operation with its parameters, and the fields of every answer."""
    told = _document()
    return render_template("api.html", told=told, sections=sections(told), coded=coded)


def _document() -> dict[str, Any]:
    """Made once: it does not change while the application runs."""
    if "api_document" not in current_app.extensions:
        current_app.extensions["api_document"] = document(current_app)
    made: dict[str, Any] = current_app.extensions["api_document"]
    return made

"""`/healthz` for load balancers and runners: whether the store responds."""

from flask import Blueprint, jsonify
from flask.typing import ResponseReturnValue
from sqlalchemy.exc import SQLAlchemyError

from ...store import queries
from ..auth import Role, has_role, public
from ..request_context import store

bp = Blueprint("health", __name__)


@bp.get("/healthz")
@public
def show() -> ResponseReturnValue:
    """200, with the number of projects for readers, or 503 with the class of the database error."""
    try:
        projects = queries.projects(store())
    except SQLAlchemyError as error:
        return jsonify(status="the store does not respond", error=type(error).__name__), 503
    return jsonify(status="ok", **({"projects": len(projects)} if has_role(Role.READER) else {}))

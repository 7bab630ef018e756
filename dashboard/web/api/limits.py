"""`/api/projects/<project>/limits`: the project's thresholds, from its warpwatch.toml.

Set by `warpwatch push` or `warpwatch policy keep`; the file of the newest commit counts.
"""

import time
from datetime import datetime

from flask import Blueprint, abort, request
from flask.typing import ResponseReturnValue
from pydantic import ValidationError
from werkzeug.exceptions import RequestEntityTooLarge

from ...model.schema import Schema
from ...model.thresholds import LimitRule, LimitRules, StatedLimits
from ...store.policy import state_limits, stated_limits
from ...store.tokens import Scope
from ..auth import require_token, token_only
from ..error_messages import InvalidRequestError
from ..request_context import default_threshold, project_or_404, store
from .operation import QueryParams, describe, operation, read_params, respond

bp = Blueprint("api_limits", __name__, url_prefix="/api/projects/<project:project>")
MAX_BYTES = 64 * 1024  # some hundred rules


class LimitsSource(Schema):
    """The file that the thresholds are from."""

    source: str
    """The path of the file."""
    commit: str | None
    """Full hash of the last commit that changed it; null outside a repository."""
    committed: datetime
    """Time of that commit, or of the file."""


class LimitsSchema(Schema):
    """Thresholds of every series: of the matching rules, the last one with a key sets it."""

    threshold: float
    """Smallest relative change that counts; the server's own if the project sets none."""
    floor: str | None
    """Smallest absolute change that counts, such as `0.5 us`."""
    blocks: bool
    rules: list[LimitRule]
    stated: LimitsSource | None
    """Null if the project has set no thresholds."""


@operation(bp, "/limits", params=QueryParams, response=LimitsSchema, tag="Projects")
def show(project: str, params: QueryParams) -> LimitsSchema:
    """Get thresholds.

    Those that pages, comparisons and regressions use, and their source.
    """
    return _schema(stated_limits(store(), project_or_404(project).name))


@bp.put("/limits")
@token_only
def replace(project: str) -> ResponseReturnValue:
    """Set thresholds.

    Those of the project's warpwatch.toml, unless the store has a newer commit's. Returns the current ones. An invalid
    document (422) or one that is too large (413) changes nothing.
    """
    params = read_params(QueryParams)
    token = require_token()
    if token.project != project or token.scope is not Scope.UPLOAD:
        abort(403, f"This token is not for uploads to {project}.")
    body = _body()
    try:
        stated = StatedLimits.model_validate_json(body)
    except ValidationError as error:
        faults = [(".".join(map(str, fault["loc"])) or "the body", fault["msg"]) for fault in error.errors()]
        raise InvalidRequestError(faults, subject="The body") from error
    try:
        state_limits(store(), project, stated, now_ms=time.time_ns() // 1_000_000)
    except ValueError:
        abort(404, f"There is no project named “{project}” here.")
    return respond(_schema(stated_limits(store(), project)), params)


describe(
    replace,
    replace.__doc__,
    params=QueryParams,
    response=LimitsSchema,
    body=StatedLimits,
    tag="Upload",
    statuses=(404, 413),
)


def limits_source(stated: StatedLimits | None) -> LimitsSource | None:
    """None without thresholds of the project."""
    if stated is None:
        return None
    return LimitsSource.of(stated)


def _schema(stated: StatedLimits | None) -> LimitsSchema:
    rules = stated or LimitRules()
    return LimitsSchema(
        threshold=rules.threshold or default_threshold(),
        floor=str(rules.floor) if rules.floor else None,
        blocks=rules.blocks,
        rules=list(rules.rules),
        stated=limits_source(stated),
    )


def _body() -> bytes:
    """The request's body; aborts with 413 beyond MAX_BYTES."""
    try:
        body = request.stream.read(MAX_BYTES + 1)
    except RequestEntityTooLarge:
        body = b" " * (MAX_BYTES + 1)
    if len(body) > MAX_BYTES:
        abort(413, f"The body is larger than {MAX_BYTES // 1024} KiB, the limit for thresholds.")
    return body

"""`/api/projects/<project>/limits`: what a change has to be to count, as the project's warpwatch.toml says.

Runners state it with their results (`warpwatch push`), or whoever has the store (`warpwatch policy keep`). The newest
commit's statement holds.
"""

import time
from datetime import datetime

from flask import Blueprint, abort, current_app, request
from flask.typing import ResponseReturnValue
from pydantic import ValidationError
from werkzeug.exceptions import RequestEntityTooLarge

from ...model.schema import Schema
from ...model.thresholds import LimitRule, LimitRules, StatedLimits
from ...store.policy import state_limits, stated_limits
from ...store.tokens import Scope
from ..auth import tokens_alone, working_token
from ..request_context import project_or_404, store
from .operation import describe, operation
from .problems import WrongQuestionError
from .query_params import Question, asked
from .responses import answer_response

bp = Blueprint("api_limits", __name__, url_prefix="/api/projects/<project:project>")
MOST_BYTES = 64 * 1024  # of a statement: some hundred rules


class LimitsSource(Schema):
    """Whose rules they are."""

    source: str
    """The path of the file."""
    commit: str | None
    """The full hash of the commit that changed it last; null where no repository has it."""
    committed: datetime
    """When that was, or when the file was written."""


class LimitsSchema(Schema):
    """What judges every series: of the rules that match it, the last that states a key counts for that key."""

    threshold: float
    """The smallest relative change that counts; the server's own where the project states none."""
    floor: str | None
    """The smallest absolute one, such as `0.5 us`."""
    blocks: bool
    rules: list[LimitRule]
    stated: LimitsSource | None
    """Null: the project has stated nothing."""


@operation(bp, "/limits", question=Question, answer=LimitsSchema, tag="Projects")
def show(project: str, asked: Question) -> LimitsSchema:
    """By which limits pages, comparisons and regressions are judged, and whose they are."""
    return _schema(stated_limits(store(), project_or_404(project).name))


@bp.put("/limits")
@tokens_alone
def keep(project: str) -> ResponseReturnValue:
    """Keeps what the project's warpwatch.toml states, unless a newer commit's statement is kept.

    The answer is what holds now. Nothing is kept of a statement that cannot be understood as a whole (422, which says
    what) or is too large (413).
    """
    question = asked(Question)
    token = working_token()
    if token.project != project or token.scope is not Scope.UPLOAD:
        abort(403, f"This token is not for uploads to {project}.")
    body = _body()
    try:
        stated = StatedLimits.model_validate_json(body)
    except ValidationError as error:
        faults = [(".".join(map(str, one["loc"])) or "the body", one["msg"]) for one in error.errors()]
        raise WrongQuestionError(faults, what="The statement") from error
    try:
        state_limits(store(), project, stated, now_ms=time.time_ns() // 1_000_000)
    except ValueError:
        abort(404, f"There is no project named “{project}” here.")
    return answer_response(_schema(stated_limits(store(), project)), question)


describe(
    keep, keep.__doc__, question=Question, answer=LimitsSchema, body=StatedLimits, tag="Upload", statuses=(404, 413)
)


def limits_source(stated: StatedLimits | None) -> LimitsSource | None:
    """Null where nothing is stated."""
    if stated is None:
        return None
    return LimitsSource(source=stated.source, commit=stated.commit, committed=stated.committed)


def _schema(stated: StatedLimits | None) -> LimitsSchema:
    told = stated or LimitRules()
    return LimitsSchema(
        threshold=told.threshold or current_app.config["THRESHOLD"],
        floor=str(told.floor) if told.floor else None,
        blocks=told.blocks,
        rules=list(told.rules),
        stated=limits_source(stated),
    )


def _body() -> bytes:
    """Ends the request if it is too large to be a statement."""
    try:
        body = request.stream.read(MOST_BYTES + 1)
    except RequestEntityTooLarge:
        body = b" " * (MOST_BYTES + 1)
    if len(body) > MOST_BYTES:
        abort(413, f"The statement has more than {MOST_BYTES // 1024} KiB, the most that is taken of one.")
    return body

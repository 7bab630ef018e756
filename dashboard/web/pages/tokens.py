"""The tokens of a project's programs: made here and shown once, listed, revoked."""

import time
from datetime import UTC, datetime

from flask import Blueprint, abort, make_response, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue

from ...store.tokens import Scope, create_token, revoke_token, tokens
from ..auth import Role, require_role
from ..request_context import project_or_404, store

bp = Blueprint("tokens", __name__)
DAYS = (30, 90, 365)  # that a token works; else until it is revoked
_DAY_MS = 86_400_000


@bp.get("/<project:project>/tokens")
@require_role(Role.ADMIN)
def show(project: str) -> str:
    """All tokens of a project, newest first."""
    return _page(project, made=None)


@bp.post("/<project:project>/tokens")
@require_role(Role.ADMIN)
def create(project: str) -> ResponseReturnValue:
    """A new token, in the answer alone."""
    found = project_or_404(project)
    days = request.form.get("days", "")
    if days and (not days.isdecimal() or int(days) not in DAYS):
        abort(400, f"“{days[:40]}” is no lifetime of a token; wanted {', '.join(map(str, DAYS))} days, or none.")
    scope = request.form.get("scope", "")
    if scope not in tuple(Scope):
        abort(400, f"“{scope[:40]}” is nothing a token can be for; wanted {', '.join(Scope)}.")
    now_ms = int(time.time() * 1000)
    ends_ms = now_ms + int(days) * _DAY_MS if days else None
    name = request.form.get("name", "").strip()
    try:
        made = create_token(store(), found.name, name=name, scope=Scope(scope), now_ms=now_ms, ends_ms=ends_ms)
    except ValueError as error:
        abort(400, f"The token has no good name: {error}.")
    answer = make_response(_page(project, made=made))
    answer.cache_control.no_store = True  # whatever else pages may be kept: this one holds a secret
    return answer


@bp.post("/<project:project>/tokens/<int:token_id>/revoke")
@require_role(Role.ADMIN)
def revoke(project: str, token_id: int) -> ResponseReturnValue:
    """The token works no more."""
    found = project_or_404(project)
    if not revoke_token(store(), token_id, project=found.name, now_ms=int(time.time() * 1000)):
        abort(404, f"There is no token {token_id} of {found.name} that still works.")
    return redirect(url_for("tokens.show", project=found.name))


def _page(project: str, *, made: str | None) -> str:
    found = project_or_404(project)
    listed = tokens(store(), project=found.name)[::-1]
    now = datetime.now(UTC)
    working = frozenset(token.id for token in listed if token.works(now))
    return render_template("tokens.html", tokens=listed, working=working, made=made, scopes=tuple(Scope), days=DAYS)

"""API tokens of a project: create (shown once), list, revoke."""

import time
from datetime import UTC, datetime

from flask import Blueprint, abort, make_response, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue

from ...store.tokens import Scope, create_token, revoke_token, tokens
from ..auth import Role, require_role
from ..request_context import project_or_404, store

bp = Blueprint("tokens", __name__)
DAYS = (30, 90, 365)  # lifetimes; else until revoked
_DAY_MS = 86_400_000


@bp.get("/<project:project>/tokens")
@require_role(Role.ADMIN)
def show(project: str) -> str:
    """All tokens of a project, newest first."""
    return _page(project, created=None)


@bp.post("/<project:project>/tokens")
@require_role(Role.ADMIN)
def create(project: str) -> ResponseReturnValue:
    """Create a token, and show it once."""
    current = project_or_404(project)
    days = request.form.get("days", "")
    if days and (not days.isdecimal() or int(days) not in DAYS):
        abort(400, f"“{days[:40]}” is not a lifetime of a token; choose {', '.join(map(str, DAYS))} days, or none.")
    scope = request.form.get("scope", "")
    if scope not in tuple(Scope):
        abort(400, f"“{scope[:40]}” is not a scope; choose {', '.join(Scope)}.")
    now_ms = int(time.time() * 1000)
    ends_ms = now_ms + int(days) * _DAY_MS if days else None
    name = request.form.get("name", "").strip()
    try:
        created = create_token(store(), current.name, name=name, scope=Scope(scope), now_ms=now_ms, ends_ms=ends_ms)
    except ValueError as error:
        abort(400, f"The name of the token is invalid: {error}.")
    response = make_response(_page(project, created=created))
    response.cache_control.no_store = True  # contains a secret
    return response


@bp.post("/<project:project>/tokens/<int:token_id>/revoke")
@require_role(Role.ADMIN)
def revoke(project: str, token_id: int) -> ResponseReturnValue:
    """Revoke a token."""
    current = project_or_404(project)
    if not revoke_token(store(), token_id, project=current.name, now_ms=int(time.time() * 1000)):
        abort(404, f"{current.name} has no active token {token_id}.")
    return redirect(url_for("tokens.show", project=current.name))


def _page(project: str, *, created: str | None) -> str:
    current = project_or_404(project)
    listed = tokens(store(), project=current.name)[::-1]
    now = datetime.now(UTC)
    active = frozenset(token.id for token in listed if token.works(now))
    return render_template("tokens.html", tokens=listed, active=active, created=created, scopes=tuple(Scope), days=DAYS)

"""Authorization decorators and the global read check."""

from collections.abc import Callable
from functools import wraps
from typing import NoReturn, ParamSpec, TypeVar

from flask import Flask, abort, current_app, request
from werkzeug.datastructures import WWWAuthenticate
from werkzeug.exceptions import Unauthorized

from ...settings import ProxyLogin
from ...store.tokens import Token
from . import identity
from .identity import Role, has_role

P = ParamSpec("P")
R = TypeVar("R")
_TOKEN_ONLY = "_warpwatch_token_only"
_PUBLIC = "_warpwatch_public"


def register(app: Flask) -> None:
    """Require the role reader for every view except public ones and static files."""
    app.before_request(_check_read)


def require_role(role: Role) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorate a view that needs at least this role: 401 for anonymous callers, 403 without the role."""

    def decorate(view: Callable[P, R]) -> Callable[P, R]:
        @wraps(view)
        def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
            if not has_role(role):
                _refuse(role)
            return view(*args, **kwargs)

        return guarded

    return decorate


def token_only(view: Callable[P, R]) -> Callable[P, R]:
    """Decorate a view that checks a token itself: login and CSRF do not apply."""
    setattr(view, _TOKEN_ONLY, True)
    return view


def public(view: Callable[P, R]) -> Callable[P, R]:
    """Decorate a view that needs no login."""
    setattr(view, _PUBLIC, True)
    return view


def is_token_only() -> bool:
    """Whether this request's view is decorated by `token_only`."""
    return hasattr(_view(), _TOKEN_ONLY)


def require_token() -> Token:
    """The request's token; aborts with 401 without a valid one."""
    token = identity.token()
    if token is None and request.authorization is not None and request.authorization.token:
        _unauthorised("The token is unknown, revoked or expired.")
    if token is None:
        _unauthorised("A token is required: send “Authorization: Bearer TOKEN”; `warpwatch token create` creates one.")
    return token


def _check_read() -> None:
    is_public = request.endpoint == "static" or hasattr(_view(), _PUBLIC) or is_token_only()
    if not is_public and not has_role(Role.READER):
        _refuse(Role.READER)


def _view() -> object:
    return current_app.view_functions.get(request.endpoint or "")


def _refuse(role: Role) -> NoReturn:
    needed = "Sign in to view this page" if role is Role.READER else f"This needs the role “{role}”"
    if identity.has_bearer():
        token = require_token()
        abort(403, f"This token is for “{token.scope}” of the project {token.project} only (“{token.name}”).")
    name = identity.caller_name()
    if name is not None:
        caller = identity.person()
        role_now = f"has the role “{caller.role}”" if caller is not None else "has no role"
        abort(
            403,
            f"You do not have permission to do this: it needs the role “{role}”, and {name} {role_now}. "
            f"The administrator can add the name to WARPWATCH_{role.upper()}S.",
        )
    if identity.can_log_in():
        _unauthorised(f"{needed}." if role is Role.READER else f"{needed}. Sign in first.")
    if isinstance(identity.access_settings().login, ProxyLogin):
        _unauthorised(f"{needed}. The reverse proxy sent no user name: use its address and sign in there.")
    if identity.has_local_login():
        _unauthorised(f"{needed}. Open the link that `warpwatch serve` printed.")
    _unauthorised(
        f"{needed}. This dashboard has no login: set WARPWATCH_LOGIN, or run `warpwatch serve` on 127.0.0.1, "
        "whose own user can write."
    )


def _unauthorised(sentence: str) -> NoReturn:
    raise Unauthorized(sentence, www_authenticate=WWWAuthenticate("bearer", {"realm": "warpwatch"}))

"""Which views ask for what: a role, a token alone, or nothing; and the door itself, where reading wants a login."""

from collections.abc import Callable
from functools import wraps
from typing import NoReturn, ParamSpec, TypeVar

from flask import Flask, abort, current_app, request
from werkzeug.datastructures import WWWAuthenticate
from werkzeug.exceptions import Unauthorized

from warpwatch.dashboard.access import requester
from warpwatch.dashboard.access.requester import may
from warpwatch.dashboard.access.roles import Role
from warpwatch.dashboard.access_settings import ProxyLogin
from warpwatch.dashboard.store.tokens import Token

P = ParamSpec("P")
R = TypeVar("R")
_TOKENS_ALONE = "_warpwatch_tokens_alone"
_WITHOUT_LOGIN = "_warpwatch_without_login"


def register(app: Flask) -> None:
    """Close every view to those who may not read, but for the few that are so marked and our static files."""
    app.before_request(_check_reading)


def needs(role: Role) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A view for people with at least this role: 401 for one without a name, 403 for one without the role."""

    def decorate(view: Callable[P, R]) -> Callable[P, R]:
        @wraps(view)
        def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
            if not may(role):
                _refuse(role)
            return view(*args, **kwargs)

        return guarded

    return decorate


def tokens_alone(view: Callable[P, R]) -> Callable[P, R]:
    """Marks a view that asks for a token itself and knows no people: neither login nor CSRF applies to it."""
    setattr(view, _TOKENS_ALONE, True)
    return view


def without_login(view: Callable[P, R]) -> Callable[P, R]:
    """Marks a view that is open also where reading wants a login."""
    setattr(view, _WITHOUT_LOGIN, True)
    return view


def takes_tokens_alone() -> bool:
    """Whether this request's view is so marked."""
    return hasattr(_view(), _TOKENS_ALONE)


def working_token() -> Token:
    """The token that the request brings; ends the request if it brings none that works."""
    found = requester.token()
    if found is None and request.authorization is not None and request.authorization.token:
        _unauthorised("This token is unknown here, was revoked or has expired.")
    if found is None:
        _unauthorised("No token: send “Authorization: Bearer TOKEN”; `warpwatch token create` makes one.")
    return found


def _check_reading() -> None:
    is_open = request.endpoint == "static" or hasattr(_view(), _WITHOUT_LOGIN) or takes_tokens_alone()
    if not is_open and not may(Role.READER):
        _refuse(Role.READER)


def _view() -> object:
    return current_app.view_functions.get(request.endpoint or "")


def _refuse(role: Role) -> NoReturn:
    wanted = "Reading here wants a login" if role is Role.READER else f"This needs the role “{role}”"
    if requester.has_bearer():
        token = working_token()
        abort(403, f"{wanted}; the token “{token.name}” is for “{token.scope}” of the project {token.project} alone.")
    name = requester.known_as()
    if name is not None:
        known = requester.person()
        has = f"has the role “{known.role}”" if known is not None else "has no role here"
        abort(403, f"{wanted}; {name} {has}. Whoever runs this dashboard can add the name to WARPWATCH_"
                   f"{role.upper()}S.")  # fmt: skip
    if requester.can_log_in():
        _unauthorised(f"{wanted}: log in first.")
    if isinstance(requester.access_settings().login, ProxyLogin):
        _unauthorised(f"{wanted}, and the proxy in front names nobody: come through it, and log in there.")
    if requester.has_local_login():
        _unauthorised(f"{wanted}: open the link that `warpwatch serve` printed.")
    _unauthorised(f"{wanted}, and there is no login here. Without one only a server on 127.0.0.1 lets its own user "
                  "write; WARPWATCH_LOGIN sets one up.")  # fmt: skip


def _unauthorised(sentence: str) -> NoReturn:
    raise Unauthorized(sentence, www_authenticate=WWWAuthenticate("bearer", {"realm": "warpwatch"}))

"""Which views ask for what: a role, a token alone, or nothing."""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from flask import abort, current_app, request

from warpwatch.dashboard.access.requester import may, person
from warpwatch.dashboard.access.roles import Role

P = ParamSpec("P")
R = TypeVar("R")
_TOKENS_ALONE = "_warpwatch_tokens_alone"
_WITHOUT_LOGIN = "_warpwatch_without_login"


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


def is_without_login() -> bool:
    """Whether this request's view is so marked."""
    return hasattr(_view(), _WITHOUT_LOGIN)


def _view() -> object:
    return current_app.view_functions.get(request.endpoint or "")


def _refuse(role: Role) -> None:
    known = person()
    wanted = f"This needs the role “{role}”"
    if known is not None:
        abort(403, f"{wanted}; {known.name} is a {known.role}. An admin of this dashboard can give it.")
    abort(401, f"{wanted}, and nobody is logged in. Without a login only the one at the machine of a server on "
               "127.0.0.1 may write.")  # fmt: skip

"""Login, logout and account."""

from flask import Blueprint, abort, redirect, render_template, request, session, url_for
from flask.typing import ResponseReturnValue

from ...store import queries
from ..auth import person, public
from ..auth.identity import access_settings, can_log_in, has_local_login, is_logged_in, log_in, log_in_locally, log_out
from ..auth.rate_limits import LOGINS, limited
from ..request_context import own_page, store

bp = Blueprint("login", __name__)
_NEXT = "next"


@bp.get("/login")
@public
def show() -> ResponseReturnValue:
    """The login page; redirects users who are logged in to the page in `next`."""
    if not can_log_in() and not has_local_login():
        abort(404, "This dashboard has no login. Set WARPWATCH_LOGIN to enable one.")
    if is_logged_in():
        return redirect(own_page(request.args.get(_NEXT)))
    return page(None)


def page(sentence: str | None) -> str:
    """The login page, with an error or the reason for the login."""
    is_login = request.blueprint == bp.name and request.endpoint != "login.account"
    url = request.args.get(_NEXT) if is_login else f"{request.script_root}{request.full_path}"
    return render_template("login.html", sentence=sentence, next=own_page(url))


@bp.get("/login/local")
@limited(LOGINS)
@public
def local() -> ResponseReturnValue:
    """Log in by the link of `warpwatch serve`; redirects, because the URL contains the token."""
    if not has_local_login():
        abort(404)
    if request.method == "HEAD":
        abort(405)  # link previews must not use up the token
    if not log_in_locally(request.args.get("token", "")):
        return page("This link is used or expired. Restart `warpwatch serve` for a new one."), 403
    return redirect(url_for("overview.index"), code=303)


@bp.get("/login/start")
@limited(LOGINS)
@public
def start() -> ResponseReturnValue:
    """Redirect to the provider."""
    if not can_log_in():
        abort(404)
    from ..auth import oidc  # slow to import

    session[_NEXT] = own_page(request.args.get(_NEXT))
    try:
        path = url_for("login.callback").removeprefix(request.script_root)
        return oidc.to_provider(f"{access_settings().public_url}{path}")
    except oidc.LoginError as error:
        return page(str(error)), 502


@bp.get("/login/callback")
@limited(LOGINS)
@public
def callback() -> ResponseReturnValue:
    """Callback from the provider: start the session."""
    if not can_log_in():
        abort(404)
    from ..auth import oidc

    url = own_page(session.pop(_NEXT, None))
    try:
        name, subject, groups = oidc.from_provider()
    except oidc.LoginError as error:
        return page(str(error)), 403
    log_in(name, subject, groups)
    return redirect(url)


@bp.post("/logout")
@public
def end() -> ResponseReturnValue:
    """End the session in this browser, but not the provider's."""
    log_out()
    return redirect(url_for("overview.index") if not can_log_in() else url_for("login.show"))


@bp.get("/account")
def account() -> str:
    """Name and role of the user."""
    user = person()
    if user is None:
        abort(404, "You are not signed in.")
    return render_template(
        "account.html", user=user, projects=queries.projects(store()) if user.role == "admin" else ()
    )

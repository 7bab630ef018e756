"""Logging in and out, and who one is here."""

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
    """The way to the provider, or the page one asked for if one is logged in already."""
    if not can_log_in() and not has_local_login():
        abort(404, "There is no login here; WARPWATCH_LOGIN sets one up.")
    if is_logged_in():
        return redirect(own_page(request.args.get(_NEXT)))
    return page(None)


def page(sentence: str | None) -> str:
    """The login page, with what went wrong, or why it is shown."""
    is_login = request.blueprint == bp.name and request.endpoint != "login.account"
    asked = request.args.get(_NEXT) if is_login else f"{request.script_root}{request.full_path}"
    return render_template("login.html", sentence=sentence, next=own_page(asked))


@bp.get("/login/local")
@limited(LOGINS)
@public
def local() -> ResponseReturnValue:
    """Log in by the link that `warpwatch serve` printed, and leave its address, which holds the token."""
    if not has_local_login():
        abort(404)
    if request.method == "HEAD":
        abort(405)  # a program that looks what is there must not use the link up
    if not log_in_locally(request.args.get("token", "")):
        return page(
            "This link was used before, or is of an earlier start. Start `warpwatch serve` again for another."
        ), 403
    return redirect(url_for("overview.index"), code=303)


@bp.get("/login/start")
@limited(LOGINS)
@public
def start() -> ResponseReturnValue:
    """On to the provider."""
    if not can_log_in():
        abort(404)
    from ..auth import oidc  # a quarter of a second to load, which no other page needs

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
    """Back from the provider: the session begins."""
    if not can_log_in():
        abort(404)
    from ..auth import oidc

    asked = own_page(session.pop(_NEXT, None))
    try:
        name, subject, groups = oidc.from_provider()
    except oidc.LoginError as error:
        return page(str(error)), 403
    log_in(name, subject, groups)
    return redirect(asked)


@bp.post("/logout")
@public
def end() -> ResponseReturnValue:
    """The session ends in this browser; the provider's own goes on."""
    log_out()
    return redirect(url_for("overview.index") if not can_log_in() else url_for("login.show"))


@bp.get("/account")
def account() -> str:
    """Who one is here and what one may do."""
    known = person()
    if known is None:
        abort(404, "Nobody is logged in.")
    return render_template(
        "account.html", known=known, projects=queries.projects(store()) if known.role == "admin" else ()
    )

"""Logging in and out, and who one is here."""

from urllib.parse import urlsplit

from flask import Blueprint, abort, redirect, render_template, request, session, url_for
from flask.typing import ResponseReturnValue

from warpwatch.dashboard.access import person, without_login
from warpwatch.dashboard.access.rate_limits import LOGINS, limited
from warpwatch.dashboard.access.requester import access_settings, can_log_in, is_logged_in, log_in, log_out
from warpwatch.dashboard.pages.shared import store
from warpwatch.dashboard.store import queries

bp = Blueprint("login", __name__)
_NEXT = "next"


@bp.get("/login")
@without_login
def show() -> ResponseReturnValue:
    """The way to the provider, or the page one asked for if one is logged in already."""
    if not can_log_in():
        abort(404, "There is no login here; WARPWATCH_LOGIN sets one up.")
    if is_logged_in():
        return redirect(_local(request.args.get(_NEXT)))
    return page(None)


def page(sentence: str | None) -> str:
    """The login page, with what went wrong, or why it is shown."""
    is_login = request.blueprint == bp.name and request.endpoint != "login.account"
    asked = request.args.get(_NEXT) if is_login else f"{request.script_root}{request.full_path}"
    return render_template("login.html", sentence=sentence, next=_local(asked))


@bp.get("/login/start")
@limited(LOGINS)
@without_login
def start() -> ResponseReturnValue:
    """On to the provider."""
    if not can_log_in():
        abort(404)
    from warpwatch.dashboard.access import openid  # a quarter of a second to load, which no other page needs

    session[_NEXT] = _local(request.args.get(_NEXT))
    try:
        path = url_for("login.callback").removeprefix(request.script_root)
        return openid.to_provider(f"{access_settings().public_url}{path}")
    except openid.LoginError as error:
        return page(str(error)), 502


@bp.get("/login/callback")
@limited(LOGINS)
@without_login
def callback() -> ResponseReturnValue:
    """Back from the provider: the session begins."""
    if not can_log_in():
        abort(404)
    from warpwatch.dashboard.access import openid

    asked = _local(session.pop(_NEXT, None))
    try:
        name, subject, groups = openid.from_provider()
    except openid.LoginError as error:
        return page(str(error)), 403
    log_in(name, subject, groups)
    return redirect(asked)


@bp.post("/logout")
@without_login
def end() -> ResponseReturnValue:
    """The session ends in this browser; the provider's own goes on."""
    log_out()
    return redirect(url_for("login.show") if can_log_in() else url_for("overview.index"))


@bp.get("/account")
def account() -> str:
    """Who one is here and what one may do."""
    known = person()
    if known is None:
        abort(404, "Nobody is logged in.")
    return render_template(
        "account.html", known=known, projects=queries.projects(store()) if known.role == "admin" else ()
    )


def _local(address: str | None) -> str:
    """The path and query of a page of ours, and the overview for anything else: nobody is led away by our own link."""
    home = url_for("overview.index")
    if not address or not address.startswith("/") or address.startswith(("//", "/\\")) or "\\" in address:
        return home
    parts = urlsplit(address)
    return home if parts.scheme or parts.netloc or any(ord(sign) < 32 for sign in address) else address.rstrip("?")

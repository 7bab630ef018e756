"""What people decide on the regressions page: of one card or of many, by forms that need no script."""

import time

from flask import Blueprint, abort, flash, redirect, request, url_for
from flask.typing import ResponseReturnValue

from warpwatch.dashboard.access import Role, needs, person
from warpwatch.dashboard.formatting import count
from warpwatch.dashboard.pages.going_back import back_to
from warpwatch.dashboard.pages.shared import project_or_404, store
from warpwatch.dashboard.store.alert_records import AlertState
from warpwatch.dashboard.store.card_records import Seen
from warpwatch.dashboard.store.triage import ChangedMeanwhileError, Decision, NoSuchPlaceError, triage

bp = Blueprint("triage", __name__)

_MOST_CARDS = 100
_MOVES = {"": 0, "earlier": -1, "later": 1}


@bp.post("/<project:project>/regressions")
@needs(Role.TRIAGER)
def decide(project: str) -> ResponseReturnValue:
    """Does what the form says with each `card` ("KEY VERSION") in it, and shows the list again.

    409 with a sentence if one of them is not as it was seen; then nothing is done.
    """
    found = project_or_404(project)
    who = person()
    assert who is not None
    seen = [_seen(text) for text in request.form.getlist("card")]
    if not 1 <= len(seen) <= _MOST_CARDS:
        abort(400, "No regression was chosen: tick one first." if not seen else f"At most {_MOST_CARDS} at once.")
    try:
        decision = _decision(who.name)
        if decision == Decision():
            abort(400, "Nothing was said: choose a state, or write a note, an assignee or a link.")
        alerts = triage(store(), found.name, seen, decision, author=who.name, now_ms=time.time_ns() // 1_000_000)
    except ValueError as error:
        abort(400, str(error))
    except NoSuchPlaceError as error:
        abort(409, str(error))
    except ChangedMeanwhileError as error:
        others = f" None of the {len(seen)} regressions was changed." if len(seen) > 1 else " Nothing was changed."
        abort(409, f"{error}{others} Go back, reload the page and look again.")
    flash(_said(decision, len(alerts)))
    if len(alerts) > 1:
        return redirect(back_to(url_for("regressions.show", project=project)), code=303)
    its_page = url_for("regressions.one", project=project, key=f"alert-{alerts[0]}")
    is_of_one = request.form.get("back") == url_for("regressions.one", project=project, key=seen[0].key)
    return redirect(its_page if is_of_one else back_to(its_page, anchor=f"alert-{alerts[0]}"), code=303)


def _seen(text: str) -> Seen:
    key, _, version = text.partition(" ")
    return Seen(key=key, version=version)


def _decision(me: str) -> Decision:
    """What the form says. Raises ValueError for what cannot be meant so."""
    form = request.form
    state = form.get("state", "")
    if state and state not in set(AlertState):
        raise ValueError(f"There is no state “{state[:50]}”.")
    if form.get("move", "") not in _MOVES:
        raise ValueError("A change is moved earlier or later.")
    return Decision(
        state=AlertState(state) if state else None,
        note=form.get("note", "").strip() or None,
        assignee=me if "mine" in form else form.get("assignee"),
        link=form.get("link"),
        move=_MOVES[form.get("move", "")],
    )


def _said(decision: Decision, cards: int) -> str:
    what = count(cards, "regression")
    if decision.state is not None:
        return f"{what} set to “{decision.state.value}”."
    return f"{what} moved to another commit." if decision.move else f"{what} changed."

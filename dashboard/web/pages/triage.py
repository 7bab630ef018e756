"""Triage decisions of the regressions page, by forms that need no script."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from flask import Blueprint, abort, flash, redirect, request, url_for
from flask.typing import ResponseReturnValue

from ...model.alert import AlertState
from ...model.triage_item import Seen
from ...store.triage import ChangedMeanwhileError, Decision, NoSuchPlaceError, triage
from ...text.labels import count
from ..auth import Role, person, require_role
from ..request_context import back_to, project_or_404, store

bp = Blueprint("triage", __name__)

_MOST_CARDS = 100
_MOVES = {"": 0, "earlier": -1, "later": 1}


@bp.post("/<project:project>/regressions")
@require_role(Role.TRIAGER)
def decide(project: str) -> ResponseReturnValue:
    """Applies the form's decision to each `card` ("KEY VERSION") in it, and shows the list again.

    409 with a sentence if one of them is not as it was seen; then nothing is done.
    """
    found = project_or_404(project)
    seen = [_seen(text) for text in request.form.getlist("card")]
    if not 1 <= len(seen) <= _MOST_CARDS:
        abort(400, "No regression was chosen: tick one first." if not seen else f"At most {_MOST_CARDS} at once.")
    others = f"None of the {len(seen)} items was changed." if len(seen) > 1 else "Nothing was changed."
    with _refusing(others):
        decision = _decision()
        alerts = triage(store(), found.name, seen, decision, author=_me(), now_ms=time.time_ns() // 1_000_000)
    flash(_said(decision, count(len(alerts), "alert")))
    if len(alerts) > 1:
        return redirect(back_to(url_for("regressions.show", project=project)), code=303)
    its_page = url_for("regressions.one", project=project, key=f"alert-{alerts[0]}")
    is_of_one = request.form.get("back") == url_for("regressions.one", project=project, key=seen[0].key)
    return redirect(its_page if is_of_one else back_to(its_page, anchor=f"alert-{alerts[0]}"), code=303)


@contextmanager
def _refusing(unchanged: str) -> Iterator[None]:
    """Answers what cannot be done with a sentence."""
    try:
        yield
    except ValueError as error:
        abort(400, str(error))
    except NoSuchPlaceError as error:
        abort(409, str(error))
    except ChangedMeanwhileError as error:
        abort(409, f"{error} {unchanged} Go back, reload the page and look again.")


def _me() -> str:
    who = person()
    assert who is not None
    return who.name


def _seen(text: str) -> Seen:
    key, _, version = text.partition(" ")
    return Seen(key=key, version=version)


def _decision() -> Decision:
    """What the form says. Raises ValueError for what cannot be meant so, and where it says nothing."""
    form = request.form
    state = form.get("state", "")
    if state and state not in set(AlertState):
        raise ValueError(f"There is no state “{state[:50]}”.")
    if form.get("move", "") not in _MOVES:
        raise ValueError("A change is moved earlier or later.")
    decision = Decision(
        state=AlertState(state) if state else None,
        note=form.get("note", "").strip() or None,
        assignee=_me() if "mine" in form else form.get("assignee"),
        link=form.get("link"),
        move=_MOVES[form.get("move", "")],
    )
    if decision == Decision():
        raise ValueError("Nothing was said: choose a state, or write a note, an assignee or a link.")
    return decision


def _said(decision: Decision, what: str) -> str:
    if decision.state is not None:
        return f"{what} set to “{decision.state.value}”."
    return f"{what} moved to another commit." if decision.move else f"{what} changed."

"""Triage decisions of the regressions page, by plain forms."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from flask import Blueprint, abort, flash, redirect, request, url_for
from flask.typing import ResponseReturnValue

from ...model.alert import AlertState, ItemVersion
from ...store.triage import ChangedMeanwhileError, Decision, NoMeasuredCommitError, triage
from ...text.labels import count
from ..auth import Role, person, require_role
from ..request_context import back_to, project_or_404, store

bp = Blueprint("triage", __name__)

_MAX_ITEMS = 100
_MOVES = {"": 0, "earlier": -1, "later": 1}


@bp.post("/<project:project>/regressions")
@require_role(Role.TRIAGER)
def decide(project: str) -> ResponseReturnValue:
    """Apply the decision to each `item` ("KEY VERSION") of the form, and return to the list.

    409 if an item has another version; then nothing is changed.
    """
    current = project_or_404(project)
    seen = [_seen(text) for text in request.form.getlist("item")]
    if not 1 <= len(seen) <= _MAX_ITEMS:
        abort(
            400,
            "No regression is selected. Select one first."
            if not seen
            else f"At most {_MAX_ITEMS} regressions at once.",
        )
    unchanged = f"None of the {len(seen)} items was changed." if len(seen) > 1 else "Nothing was changed."
    with _refusing(unchanged):
        decision = _decision()
        alerts = triage(store(), current.name, seen, decision, author=_caller(), now_ms=time.time_ns() // 1_000_000)
    flash(_message(decision, count(len(alerts), "alert")))
    if len(alerts) > 1:
        return redirect(back_to(url_for("regressions.show", project=project)), code=303)
    item_page = url_for("regressions.one", project=project, item=f"alert-{alerts[0]}")
    is_item_page = request.form.get("back") == url_for("regressions.one", project=project, item=seen[0].key)
    return redirect(item_page if is_item_page else back_to(item_page, anchor=f"alert-{alerts[0]}"), code=303)


@contextmanager
def _refusing(unchanged: str) -> Iterator[None]:
    """Turn errors into 400 or 409 with a message."""
    try:
        yield
    except ValueError as error:
        abort(400, str(error))
    except NoMeasuredCommitError as error:
        abort(409, str(error))
    except ChangedMeanwhileError as error:
        abort(409, f"{error} {unchanged} Go back and reload the page.")


def _caller() -> str:
    caller = person()
    assert caller is not None
    return caller.name


def _seen(text: str) -> ItemVersion:
    key, _, version = text.partition(" ")
    return ItemVersion(key=key, version=version)


def _decision() -> Decision:
    """The decision in the form. Raises ValueError for invalid or empty ones."""
    form = request.form
    state = form.get("state", "")
    if state and state not in set(AlertState):
        raise ValueError(f"There is no state “{state[:50]}”.")
    if form.get("move", "") not in _MOVES:
        raise ValueError(f"A change can be moved “earlier” or “later”, not “{form['move'][:50]}”.")
    decision = Decision(
        state=AlertState(state) if state else None,
        note=form.get("note", "").strip() or None,
        assignee=_caller() if "mine" in form else form.get("assignee"),
        link=form.get("link"),
        move=_MOVES[form.get("move", "")],
    )
    if decision == Decision():
        raise ValueError("The form is empty: choose a state, or enter a note, an assignee or a link.")
    return decision


def _message(decision: Decision, alerts: str) -> str:
    if decision.state is not None:
        return f"{alerts} set to “{decision.state.value}”."
    return f"{alerts} moved to another commit." if decision.move else f"{alerts} changed."

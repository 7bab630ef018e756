"""People's notes on a commit, or on a series at one: written from any page that shows them, deleted by their author."""

import time

from flask import Blueprint, abort, redirect, request, url_for
from flask.typing import ResponseReturnValue

from ...store.notes import NothingToAnnotateError, add_annotation, annotation, delete_annotation
from ...store.triage import MOST_TEXT
from ..auth import Role, person, require_role
from ..request_context import back_to, project_or_404, store

bp = Blueprint("notes", __name__)


@bp.post("/<project:project>/notes")
@require_role(Role.TRIAGER)
def add(project: str) -> ResponseReturnValue:
    """A note with the form's `text` on its `commit` (full hash), or on its `series` (key) there; then back."""
    found = project_or_404(project)
    who = person()
    assert who is not None
    commit, text = request.form.get("commit", ""), request.form.get("text", "")
    if len(text) > MOST_TEXT:
        abort(400, f"The note is longer than {MOST_TEXT:,} characters.")
    try:
        number = add_annotation(
            store(),
            found.name,
            commit,
            series=request.form.get("series") or None,
            author=who.name,
            owner=who.subject,
            text=text,
            now_ms=time.time_ns() // 1_000_000,
        )
    except NothingToAnnotateError as error:
        abort(404, f"{error}.")
    except ValueError:
        abort(400, "The note is empty, or holds a character of no text.")
    page = url_for("commits.show", project=project, prefix=commit)
    return redirect(back_to(page, anchor=f"note-{number}"), code=303)


@bp.post("/<project:project>/notes/<int:number>/delete")
@require_role(Role.TRIAGER)
def delete(project: str, number: int) -> ResponseReturnValue:
    """Deletes a note of one's own; an admin deletes any."""
    found = project_or_404(project)
    who = person()
    assert who is not None
    its = annotation(store(), found.name, number)
    if its is None:
        abort(404, "There is no such note any more.")
    if its.owner != who.subject and not who.role.includes(Role.ADMIN):
        abort(403, f"This note is {its.author}’s: only who wrote a note deletes it.")
    delete_annotation(store(), found.name, number)
    return redirect(back_to(url_for("commits.show", project=project, prefix=its.commit)), code=303)

"""Notes on a commit, or on a series at a commit."""

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
    """Add a note: form fields `text`, `commit` (full hash), `series` (key, optional)."""
    current = project_or_404(project)
    author = person()
    assert author is not None
    commit, text = request.form.get("commit", ""), request.form.get("text", "")
    if len(text) > MOST_TEXT:
        abort(400, f"The note is longer than {MOST_TEXT:,} characters.")
    try:
        number = add_annotation(
            store(),
            current.name,
            commit,
            series=request.form.get("series") or None,
            author=author.name,
            owner=author.subject,
            text=text,
            now_ms=time.time_ns() // 1_000_000,
        )
    except NothingToAnnotateError as error:
        abort(404, f"{error}.")
    except ValueError:
        abort(400, "The note is empty or contains a control character.")
    page = url_for("commits.show", project=project, prefix=commit)
    return redirect(back_to(page, anchor=f"note-{number}"), code=303)


@bp.post("/<project:project>/notes/<int:number>/delete")
@require_role(Role.TRIAGER)
def delete(project: str, number: int) -> ResponseReturnValue:
    """Delete one's own note; an admin may delete any."""
    current = project_or_404(project)
    author = person()
    assert author is not None
    note = annotation(store(), current.name, number)
    if note is None:
        abort(404, "This note no longer exists.")
    if note.owner != author.subject and not author.role.includes(Role.ADMIN):
        abort(403, f"Only {note.author} or an admin can delete this note.")
    delete_annotation(store(), current.name, number)
    return redirect(back_to(url_for("commits.show", project=project, prefix=note.commit)), code=303)

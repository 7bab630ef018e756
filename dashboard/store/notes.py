"""Notes on a commit, or on one series at a commit."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, Select, delete, insert, select

from ..model.result_file import storable
from . import schema
from .engine import Store
from .mappers import moment

RELEASES = "git tag"  # author of notes that importers/project_history.py makes of tags

_annotation, _commit, _series, _project = schema.annotation, schema.commit, schema.series, schema.project


class NothingToAnnotateError(Exception):
    """The commit or series of a note is not recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotation:
    id: int
    commit: str  # full hash
    series: str | None  # its key; None for a note on the whole commit
    author: str
    text: str
    created: datetime
    owner: str | None  # Person.subject of the author; None: unknown


def add_annotation(
    store: Store,
    project: str,
    commit: str,
    *,
    series: str | None = None,
    author: str,
    owner: str | None = None,
    text: str,
    now_ms: int,
) -> int:
    """Add a note on a commit (full hash), or on a series (key) at the commit; return its id.

    Raises NothingToAnnotateError, and ValueError for an empty or unstorable text or author.
    """
    if not (text.strip() and author.strip() and storable(text) and storable(author)):
        raise ValueError("a note needs a text and an author; one of them is empty or contains control characters")
    with store.write(project, of_project=True) as connection:
        commit_id = connection.execute(
            select(_commit.c.id).join(_project).where(_project.c.name == project, _commit.c.hash == commit)
        ).scalar_one_or_none()
        if commit_id is None:
            raise NothingToAnnotateError(f"{project} has no commit {commit!r} with results")
        series_id = _series_id(connection, project, series) if series is not None else None
        values = {
            "commit_id": commit_id,
            "series_id": series_id,
            "author": author.strip(),
            "owner": owner,
            "text": text.strip(),
            "created_ms": now_ms,
        }
        inserted = connection.execute(insert(_annotation).values(**values).returning(_annotation.c.id))
        return int(inserted.scalar_one())


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A tag of the repository at a commit with results."""

    commit: str  # full hash
    name: str
    date_ms: int


def replace_releases(store: Store, project: str, releases: Sequence[Release]) -> None:
    """Replace the releases of the project. Commits without results are skipped."""
    if not releases and not any(note.author == RELEASES for note in annotations(store, project)):
        return
    of_project = select(_commit.c.id, _commit.c.hash).join(_project).where(_project.c.name == project)
    with store.write(project, of_project=True) as connection:
        ids = {row.hash: row.id for row in connection.execute(of_project)}
        rows = [
            {
                "commit_id": ids[release.commit],
                "series_id": None,
                "author": RELEASES,
                "text": release.name,
                "created_ms": release.date_ms,
            }
            for release in releases
            if release.commit in ids and storable(release.name)
        ]
        columns = (_annotation.c.commit_id, _annotation.c.text)
        is_release = (_annotation.c.author == RELEASES) & _annotation.c.commit_id.in_(
            select(of_project.subquery().c.id)
        )
        known = {tuple(row) for row in connection.execute(select(*columns).where(is_release))}
        if known != {(each["commit_id"], each["text"]) for each in rows}:
            connection.execute(delete(_annotation).where(is_release))
            if rows:
                connection.execute(insert(_annotation), rows)


def annotations(
    store: Store, project: str, *, commit: str | None = None, commits: Collection[str] | None = None
) -> tuple[Annotation, ...]:
    """A project's notes by commit, then by time; with `commit` or `commits` theirs alone."""
    query = _select(project).order_by(_commit.c.position, _annotation.c.created_ms, _annotation.c.id)
    if commit is not None:
        query = query.where(_commit.c.hash == commit)
    if commits is not None:
        query = query.where(_commit.c.hash.in_(commits))
    with store.read() as connection:
        return tuple(_record(row) for row in connection.execute(query))


def annotation(store: Store, project: str, annotation_id: int) -> Annotation | None:
    with store.read() as connection:
        row = connection.execute(_select(project).where(_annotation.c.id == annotation_id)).one_or_none()
    return _record(row) if row is not None else None


def _select(project: str) -> Select[Any]:
    return (
        select(_annotation, _commit.c.hash, _series.c.key)
        .join(_commit, _commit.c.id == _annotation.c.commit_id)
        .join(_project, _project.c.id == _commit.c.project_id)
        .outerjoin(_series, _series.c.id == _annotation.c.series_id)
        .where(_project.c.name == project)
    )


def _record(row: Row[Any]) -> Annotation:
    return Annotation(
        id=row.id,
        commit=row.hash,
        series=row.key,
        author=row.author,
        text=row.text,
        created=moment(row.created_ms),
        owner=row.owner,
    )


def delete_annotation(store: Store, project: str, annotation_id: int) -> bool:
    """Delete a note; False if the project has no such note."""
    of_project = select(_commit.c.id).join(_project).where(_project.c.name == project)
    with store.write(project, of_project=True) as connection:
        is_chosen = (_annotation.c.id == annotation_id) & _annotation.c.commit_id.in_(of_project)
        return connection.execute(delete(_annotation).where(is_chosen)).rowcount == 1


def _series_id(connection: Connection, project: str, key: str) -> int:
    series_id = connection.execute(
        select(_series.c.id).join(_project).where(_project.c.name == project, _series.c.key == key)
    ).scalar_one_or_none()
    if series_id is None:
        raise NothingToAnnotateError(f"{project} has no series {key!r}")
    return int(series_id)

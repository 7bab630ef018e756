"""API tokens of programs for one project: shown once, stored as a hash, revocable.

A token is 32 random bytes, so that its SHA-256 needs neither salt nor stretching.
"""

import hashlib
import logging
import secrets
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from sqlalchemy import ColumnElement, Row, insert, select, update
from sqlalchemy.exc import OperationalError

from ..model.result_file import LONGEST_NAME, storable_name
from . import schema
from .engine import Store
from .ids import project_row
from .mappers import moment

_log = logging.getLogger(__name__)
_PREFIX = "warpwatch_"  # for scanners of leaked secrets
_BYTES = 32
_USE_RECORDED_EVERY_MS = 3_600_000  # a write for each request would be slow
_token, _project = schema.token, schema.project


class Scope(StrEnum):
    """What a token allows."""

    UPLOAD = "upload"  # adding results
    READ = "read"  # reading over the API, if reading requires a login
    TRIAGE = "triage"  # reading, and triage over the API


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A stored token, without its secret."""

    id: int
    project: str
    name: str
    scope: Scope
    created: datetime
    last_used: datetime | None
    ends: datetime | None  # end of validity: set at creation, or by revocation

    def works(self, now: datetime) -> bool:
        """Whether the token is valid at this time."""
        return self.ends is None or now < self.ends


def create_token(
    store: Store, project: str, *, name: str, scope: Scope = Scope.UPLOAD, now_ms: int, ends_ms: int | None = None
) -> str:
    """Create a token for a project, and the project if new. Returns the secret, which is not stored.

    Raises ValueError for a name that cannot be stored.
    """
    for text in (project, name):
        if not storable_name(text):
            raise ValueError(f"{text[:80]!r} is not a name; expected a text of at most {LONGEST_NAME} bytes")
    secret = _PREFIX + secrets.token_urlsafe(_BYTES)
    with store.write(project, of_project=True) as connection:
        project_id, _ = project_row(connection, project, None)
        values = {
            "project_id": project_id,
            "name": name,
            "scope": scope.value,
            "digest": _digest(secret),
            "created_ms": now_ms,
            "revoked_ms": ends_ms,
        }
        connection.execute(insert(_token).values(**values))
    return secret


def use_token(store: Store, secret: str, *, now_ms: int) -> Token | None:
    """The token as it was before this use, which is noted to the hour; None for one unknown, revoked or expired."""
    wanted = (_token.c.digest == _digest(secret)) & _works(now_ms)
    with store.read() as connection:
        row = connection.execute(_select().where(wanted)).one_or_none()
    if row is None:
        return None
    if row.last_used_ms is None or now_ms - row.last_used_ms >= _USE_RECORDED_EVERY_MS:
        try:
            with store.write("tokens") as connection:
                connection.execute(update(_token).where(_token.c.id == row.id).values(last_used_ms=now_ms))
        except OperationalError as error:  # reading does not want a database that can be written
            _log.warning("the use of token %d is not noted: %s", row.id, error.orig)
    return _record(row)


def tokens(store: Store, *, project: str | None = None) -> tuple[Token, ...]:
    """All tokens, or those of a project, revoked ones too, in the order they were made."""
    wanted = _select().order_by(_token.c.id)
    if project is not None:
        wanted = wanted.where(_project.c.name == project)
    with store.read() as connection:
        return tuple(map(_record, connection.execute(wanted)))


def revoke_token(store: Store, token_id: int, *, project: str | None = None, now_ms: int) -> bool:
    """Ends a token, of this project if one is named, at once; False if there is no such token that still works."""
    wanted = (_token.c.id == token_id) & _works(now_ms)
    if project is not None:
        wanted &= _token.c.project_id == select(_project.c.id).where(_project.c.name == project).scalar_subquery()
    with store.write("tokens") as connection:
        return connection.execute(update(_token).where(wanted).values(revoked_ms=now_ms)).rowcount == 1


def _works(now_ms: int) -> ColumnElement[bool]:
    """A token that expires is one that is revoked at a later time."""
    return _token.c.revoked_ms.is_(None) | (_token.c.revoked_ms > now_ms)


def _select():  # type: ignore[no-untyped-def]  # a SELECT's type names every column
    return select(_token, _project.c.name.label("project")).join(_project, _project.c.id == _token.c.project_id)


def _record(row: Row) -> Token:
    return Token(
        id=row.id,
        project=row.project,
        name=row.name,
        scope=Scope(row.scope),
        created=moment(row.created_ms),
        last_used=moment(row.last_used_ms),
        ends=moment(row.revoked_ms),
    )


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()

"""Settings and store of a command, and its errors."""

import click
from sqlalchemy.exc import OperationalError

from ..settings import Settings
from ..store import Store, StoreError
from .output import FailedError

_DISK_FULL = "53100"  # PostgreSQL's code


class CannotTellError(click.ClickException):
    """The command has no result (exit status 2)."""

    exit_code = 2


def read_settings() -> Settings:
    """Settings from the environment. Raises a click error."""
    try:
        return Settings.from_env()
    except ValueError as error:
        raise CannotTellError(str(error)) from error


def database_failed(error: OperationalError, *, to_go_on: str) -> click.ClickException:
    """The error of a command whose database fails; completed parts of its work are stored."""
    message = str(error.orig).strip().splitlines()[0]
    is_full = "disk is full" in message or getattr(error.orig, "sqlstate", None) == _DISK_FULL
    first = "free some disk space, then " if is_full else ""
    return FailedError(f"the database failed: {message}. Completed work is stored; {first}{to_go_on}")


def open_store(database: str | None) -> Store:
    """Open the store at this URL, by default the settings'; it must exist. Raises a click error."""
    return _open(database, create=False)


def open_or_create_store(database: str | None) -> Store:
    """Like `open_store`, but creates a missing store."""
    return _open(database, create=True)


def _open(database: str | None, *, create: bool) -> Store:
    try:
        return Store(database or read_settings().database, create=create)
    except StoreError as error:
        raise CannotTellError(str(error)) from error

"""How a command gets at the settings and the store, and what it says when it cannot."""

import click
from sqlalchemy.exc import OperationalError

from ..settings import Settings
from ..store import Store, StoreError
from .output import FailedError

_DISK_FULL = "53100"  # PostgreSQL's code


class CannotTellError(click.ClickException):
    """The command has no answer: `check` could not tell."""

    exit_code = 2


def read_settings() -> Settings:
    """The environment's settings. Raises a click error that says what is wrong with them."""
    try:
        return Settings.from_env()
    except ValueError as error:
        raise CannotTellError(str(error)) from error


def gave_up(error: OperationalError, *, to_go_on: str) -> click.ClickException:
    """What a command says when the database leaves it in the middle of its work, whose parts are whole or not there."""
    said = str(error.orig).strip().splitlines()[0]
    is_full = "disk is full" in said or getattr(error.orig, "sqlstate", None) == _DISK_FULL
    first = "make room, and then " if is_full else ""
    return FailedError(f"the database gave up: {said}. What is in stays whole; {first}{to_go_on}")


def open_store(database: str | None) -> Store:
    """The history at this address, or at the settings' one, which must exist: a mistyped address creates nothing.

    Raises a click error that says what is wrong with it.
    """
    return _open(database, create=False)


def open_or_create_store(database: str | None) -> Store:
    """As `open_store`, for the commands that add to a history: they create it where there is none yet."""
    return _open(database, create=True)


def _open(database: str | None, *, create: bool) -> Store:
    try:
        return Store(database or read_settings().database, create=create)
    except StoreError as error:
        raise CannotTellError(str(error)) from error

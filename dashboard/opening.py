"""How a command gets at the settings and the store, and what it says when it cannot."""

import click

from warpwatch.dashboard.settings import Settings
from warpwatch.dashboard.store import Store, StoreError


class CannotTellError(click.ClickException):
    """The command has no answer: `check` could not tell."""

    exit_code = 2


def read_settings() -> Settings:
    """The environment's settings. Raises a click error that says what is wrong with them."""
    try:
        return Settings.from_env()
    except ValueError as error:
        raise CannotTellError(str(error)) from error


def open_store(database: str | None) -> Store:
    """The store at this address, or at the settings' one. Raises a click error that says what is wrong with it."""
    try:
        return Store(database or read_settings().database)
    except StoreError as error:
        raise CannotTellError(str(error)) from error

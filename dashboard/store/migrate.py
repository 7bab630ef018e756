"""Brings a database to the newest schema with the Alembic migrations beside this file.

Alembic takes a third of a second to import, and next to no start of a program has anything to migrate: so it is told
without it whether there is.
"""

import threading
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, inspect, text

if TYPE_CHECKING:
    from alembic.config import Config

MIGRATIONS = Path(__file__).with_name("migrations")


class NewerSchemaError(Exception):
    """The database was written by a newer warpwatch."""


def has_schema(connection: Connection) -> bool:
    """Whether the database is a warpwatch history, of any version."""
    return _current(connection) is not None


def is_newest(connection: Connection) -> bool:
    """Whether there is nothing to migrate, which needs no turn among the writers."""
    return _current(connection) == _revisions()[-1]


def migrate(connection: Connection) -> None:
    """Run what is missing inside the caller's transaction, which must keep other processes' migrations out.

    Raises NewerSchemaError if the database knows a revision that this version does not.
    """
    revisions, current = _revisions(), _current(connection)
    if current == revisions[-1]:
        return
    if current is not None and current not in revisions:
        raise NewerSchemaError(f"the database has schema {current!r}, written by a newer warpwatch: upgrade this one")
    from alembic import command

    config = alembic_config()
    config.attributes["connection"] = connection
    with _one_at_a_time:
        command.upgrade(config, "head")


def _revisions() -> list[str]:
    return sorted(path.name.partition("_")[0] for path in (MIGRATIONS / "versions").glob("[0-9]*.py"))


def _current(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()


def alembic_config() -> "Config":
    """For `alembic revision --autogenerate` and for the tests."""
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    return config


_one_at_a_time = threading.Lock()  # alembic keeps the running migration in module globals

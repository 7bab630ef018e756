"""Brings a database to the newest schema with the Alembic migrations beside this file."""

import threading
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

MIGRATIONS = Path(__file__).with_name("migrations")


class NewerSchemaError(Exception):
    """The database was written by a newer warpwatch."""


def migrate(connection: Connection) -> None:
    """Run what is missing inside the caller's transaction, which must keep other processes' migrations out.

    Raises NewerSchemaError if the database knows a revision that this version does not.
    """
    config = alembic_config()
    scripts = ScriptDirectory.from_config(config)
    current = MigrationContext.configure(connection).get_current_revision()
    if current == scripts.get_current_head():
        return
    if current is not None and current not in {script.revision for script in scripts.walk_revisions()}:
        raise NewerSchemaError(f"the database has schema {current!r}, written by a newer warpwatch: upgrade this one")
    config.attributes["connection"] = connection
    with _one_at_a_time:
        command.upgrade(config, "head")


def alembic_config() -> Config:
    """For `alembic revision --autogenerate` and for the tests."""
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    return config


_one_at_a_time = threading.Lock()  # alembic keeps the running migration in module globals

"""Creates the tables of an empty database, and brings an older one to the newest schema with Alembic.

An empty database gets the tables of schema/ as they are today and the newest revision's number, without Alembic,
whose import takes a third of a second.
"""

import functools
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Dialect, create_mock_engine, inspect, text

from .schema import metadata

if TYPE_CHECKING:
    from alembic.config import Config

MIGRATIONS = Path(__file__).with_name("migrations")


class UnknownSchemaError(Exception):
    """The database was written by another version of warpwatch, and no migration leads from its schema."""


def has_schema(connection: Connection) -> bool:
    """Whether the database is a warpwatch history, of any version."""
    return _current(connection) is not None


def is_newest(connection: Connection) -> bool:
    """Whether there is nothing to create or migrate."""
    return _current(connection) == _revisions()[-1]


def migrate(connection: Connection) -> None:
    """Create or migrate the tables in the caller's transaction, which must keep other processes' migrations out.

    Raises UnknownSchemaError if the database has a revision that this version does not know.
    """
    revisions, current = _revisions(), _current(connection)
    if current is None:
        for statement in _creation(connection.dialect):
            connection.exec_driver_sql(statement)
        connection.execute(text("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY)"))
        connection.execute(text("INSERT INTO alembic_version VALUES (:newest)"), {"newest": revisions[-1]})
        return
    if current == revisions[-1]:
        return
    if current not in revisions:
        raise UnknownSchemaError(
            f"the database has schema {current!r}, which this version of warpwatch does not know: "
            "use the version that wrote it, or import the results into a new database"
        )
    from alembic import command

    config = alembic_config()
    config.attributes["connection"] = connection
    with _one_at_a_time:
        command.upgrade(config, "head")


@functools.lru_cache(2)
def _creation(dialect: Dialect) -> tuple[str, ...]:
    """Statements that create the tables and indices of schema/."""
    statements: list[str] = []

    def add(ddl: Any, *_: Any, **__: Any) -> None:
        statements.append(str(ddl.compile(dialect=dialect)))

    engine = create_mock_engine(f"{dialect.name}+{dialect.driver}://", add)
    metadata.create_all(engine, checkfirst=False)
    return tuple(statements)


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

"""Open a database, migrate its schema, and read or write it in transactions."""

import hashlib
import itertools
import json
import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import orjson
from sqlalchemy import URL, Connection, Engine, create_engine, event, inspect, make_url, text
from sqlalchemy.exc import ArgumentError, DatabaseError

from .cache import Cache, generation, raise_generation, rows_changed
from .schema import metadata

Item = TypeVar("Item")
Result = TypeVar("Result")
More = ParamSpec("More")
_LOCK_TIMEOUT_S = 60  # for another process to finish writing


class StoreError(Exception):
    """The database cannot be opened or used; the message says why and what to do."""


class Store:
    """The history in one database: SQLite (WAL) by path, PostgreSQL by URL. Safe to share between threads.

    Opening migrates an older schema and, unless `create` is False, creates missing file, folder and tables; several
    processes may do so at once. Raises StoreError for an invalid URL, an unavailable database, or a missing history
    that must not be created.
    """

    def __init__(self, database: str, *, create: bool = True) -> None:
        self.url = _parse(database)
        self.engine = _engine(self.url, create=create)
        self._cache = Cache()
        self._moment = threading.local()
        try:
            with self.read() as connection:
                is_ready = is_newest(connection)
                if not create and not has_schema(connection):
                    raise StoreError(_missing(self.url, "has no warpwatch history"))
            if not is_ready:
                with self.write("schema") as connection:
                    migrate(connection)
        except UnknownSchemaError as error:
            self.close()
            raise StoreError(f"{self.url.render_as_string()}: {error}") from error
        except (DatabaseError, sqlite3.DatabaseError) as error:  # the second from _prepare_sqlite
            self.close()
            cause = error.orig if isinstance(error, DatabaseError) else error
            raise StoreError(
                f"cannot open the database {self.url.render_as_string()}: {cause}{_advice(cause)}"
            ) from error

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A read transaction with a consistent snapshot, which is not PostgreSQL's default."""
        level = {"isolation_level": "REPEATABLE READ"} if self.engine.dialect.name == "postgresql" else {}
        with self.engine.connect().execution_options(**level) as connection, connection.begin():
            yield connection

    @contextmanager
    def write(self, lock: str, *, of_project: bool = False) -> Iterator[Connection]:
        """A write transaction; those with the same lock name run one after the other.

        SQLite has one writer; PostgreSQL uses an advisory lock until the end of the transaction. `of_project`: the lock
        is a project's name, and only its data are written: if any row changes, the project's generation is raised,
        which invalidates cached values in all processes (cache.py).
        """
        options: dict[str, Any] = {"warpwatch_writes": True}
        with self.engine.connect().execution_options(**options) as connection, connection.begin():
            if connection.dialect.name == "postgresql":
                number = int.from_bytes(hashlib.blake2b(lock.encode(), digest_size=8).digest(), signed=True)
                connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": number})
            before = rows_changed(connection) if of_project else 0
            yield connection
            if of_project and rows_changed(connection) != before:
                raise_generation(connection, lock)
                self._generations_of_moment.clear()

    def cached(
        self,
        project: str | None,
        key: Hashable,
        compute: Callable[[], Result],
        *,
        size: Callable[[Result], int] | None = None,
    ) -> Result:
        """The value of `compute` from a project's data (None: all projects), cached until any process changes them.

        Callers must not modify it. `size`: bytes of a large value.
        """
        return self._cache.get((project, key), self.generation(project), compute, size)

    def cached_each(
        self,
        project: str,
        items: Sequence[Item],
        key: Callable[[Item], Hashable | None],
        compute: Callable[[Sequence[Item]], Sequence[Result]],
        *,
        size: Callable[[Result], int] | None = None,
    ) -> list[Result]:
        """As `cached`, the value of each item by its key; a value without a key is not cached.

        `compute` gives the values of several items: if one is missing, those of all items with a key.
        """
        generation = self.generation(project)  # of all, and read before the values
        keys = [key(item) for item in items]
        keyed = [item for item, each in zip(items, keys, strict=True) if each is not None]
        uncached = [item for item, each in zip(items, keys, strict=True) if each is None]
        computed = cache(lambda: compute(keyed))
        places, others = itertools.count(), iter(compute(uncached) if uncached else ())

        def value(each: Hashable | None) -> Result:
            if each is None:
                return next(others)
            place = next(places)
            return self._cache.get((project, each), generation, lambda: computed()[place], size)

        return [value(each) for each in keys]

    def cached_as_of(
        self, connection: Connection, project: str, key: Hashable, compute: Callable[[], Result]
    ) -> Result:
        """As `cached`, for a value that must fit other rows of this transaction: in the generation that it sees."""
        return self._cache.get((project, key), generation(connection, project), compute)

    def generation(self, project: str | None = None) -> int:
        """Number of changes of a project's data, or of all. Read it before the data."""
        known = self._generations_of_moment
        if project not in known:
            with self.engine.connect() as connection:
                known[project] = generation(connection, project)
        return known[project]

    @contextmanager
    def one_moment(self) -> Iterator[None]:
        """Read each generation once in this context, for pages that use many cached values."""
        outer = getattr(self._moment, "generations", None)
        self._moment.generations = {}
        try:
            yield
        finally:
            self._moment.generations = outer

    @property
    def _generations_of_moment(self) -> dict[str | None, int]:
        known = getattr(self._moment, "generations", None)
        return {} if known is None else known

    @property
    def sqlite_file(self) -> Path | None:
        return Path(str(self.url.database)) if self.url.get_backend_name() == "sqlite" else None

    def close(self) -> None:
        """Give back all connections."""
        self.engine.dispose()


def cached(
    size: Callable[[Any], int] | None = None,
) -> Callable[[Callable[Concatenate[Store, str, More], Result]], Callable[Concatenate[Store, str, More], Result]]:
    """Decorator of a query: cache its value, by project and further arguments, until the project's data change.

    Callers must not modify the value. `size`: bytes of a large value.
    """

    def decorate(
        query: Callable[Concatenate[Store, str, More], Result],
    ) -> Callable[Concatenate[Store, str, More], Result]:
        @wraps(query)
        def read(store: Store, project: str, /, *more: More.args, **named: More.kwargs) -> Result:
            key = (query.__module__, query.__qualname__, *more, *named.items())
            return store.cached(project, key, lambda: query(store, project, *more, **named), size=size)

        return read

    return decorate


def _advice(cause: object) -> str:
    if isinstance(cause, sqlite3.DatabaseError) and not isinstance(cause, sqlite3.OperationalError):
        return ". The file is damaged, or not an SQLite database: restore a backup, or name another file"
    return ""


def _parse(database: str) -> URL:
    """A SQLAlchemy URL; `postgres://` and `postgresql://` mean psycopg 3, a bare path means SQLite."""
    if "://" not in database:
        database = f"sqlite:///{database}"
    try:
        url = make_url(database)
    except ArgumentError as error:
        raise StoreError(f"{database!r} is not a database URL; try sqlite:///history.db") from error
    if url.drivername in {"postgres", "postgresql"}:
        url = url.set(drivername="postgresql+psycopg")
    if url.get_backend_name() not in {"sqlite", "postgresql"}:
        raise StoreError(f"{url.drivername} is not supported; expected sqlite:///PATH or postgresql://HOST/NAME")
    if url.get_backend_name() == "sqlite" and url.database in {None, "", ":memory:"}:
        raise StoreError("the history needs a file: sqlite:///PATH")
    return url


def _missing(url: URL, state: str) -> str:
    return (
        f"{url.render_as_string()} {state}: name another database with --database or WARPWATCH_DATABASE, or fill this "
        "one with `warpwatch import RESULTS`"
    )


def _engine(url: URL, *, create: bool) -> Engine:
    if url.get_backend_name() == "postgresql":
        # psycopg's warnings are raised too; without a handler they would be printed to standard error.
        logging.getLogger("psycopg").addHandler(logging.NullHandler())
        try:
            engine = create_engine(url, pool_pre_ping=True, json_serializer=_to_json, json_deserializer=_from_json)
        except ModuleNotFoundError as error:
            raise StoreError(f"PostgreSQL needs {error.name}: pip install 'warpwatch[postgresql]'") from error
        return engine
    path = Path(str(url.database))
    if path.is_dir():
        raise StoreError(
            f"cannot open the database {path}: a folder; name a file in it, such as {path / 'warpwatch.db'}"
        )
    if not create and not path.exists():
        raise StoreError(_missing(url, "does not exist"))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"cannot create the folder {path.parent}: {error.strerror}") from error
    engine = create_engine(
        url, connect_args={"timeout": _LOCK_TIMEOUT_S}, json_serializer=_to_json, json_deserializer=_from_json
    )
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _to_json(value: Any) -> str:
    """JSON by orjson, five times as fast as Python's writer, which takes what orjson refuses: lone surrogates, and
    keys that are not strings."""
    try:
        return orjson.dumps(value).decode()
    except TypeError:
        return json.dumps(value)


def _from_json(text: str) -> Any:
    try:
        return orjson.loads(text)
    except ValueError:  # a bare NaN
        return json.loads(text)


def _prepare_sqlite(dbapi_connection: Any, _record: object) -> None:
    dbapi_connection.isolation_level = None  # the driver's own transactions would commit before DDL
    cursor = dbapi_connection.cursor()
    # FULL: a commit is on disk when acknowledged, also with write-ahead logging. An import of one file stays below the
    # pages of wal_autocheckpoint, so that it is checkpointed once, at its end.
    for pragma in (
        f"busy_timeout={_LOCK_TIMEOUT_S * 1000}",
        "synchronous=FULL",
        "foreign_keys=ON",
        "cache_size=-131072",
        "temp_store=MEMORY",
        "wal_autocheckpoint=4000",
    ):
        cursor.execute(f"PRAGMA {pragma}")
    _enter_wal(cursor)
    cursor.close()


def _enter_wal(cursor: sqlite3.Cursor) -> None:
    """Enable write-ahead logging, which is persistent. SQLite ignores the busy timeout here, so retry while another
    process creates the store.
    """
    deadline = time.monotonic() + _LOCK_TIMEOUT_S
    while True:
        try:
            cursor.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def _begin_sqlite(connection: Connection) -> None:
    writes = connection.get_execution_options().get("warpwatch_writes", False)
    # A writer locks at once: upgrading a read transaction fails without waiting if another wrote meanwhile.
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


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
        metadata.create_all(connection)
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

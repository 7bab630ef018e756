"""A PostgreSQL server of each test process, and empty databases of both kinds."""

import itertools
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

from warpwatch.dashboard.store.schema import metadata


def postgresql_program(name: str) -> str | None:
    newest = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda p: int(p.parts[-3]))
    return shutil.which(name) or (str(newest[-1]) if newest else None)


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[Path]:
    """A PostgreSQL server on a unix socket in a folder of its own; gives the folder."""
    initdb, pg_ctl = postgresql_program("initdb"), postgresql_program("pg_ctl")
    if initdb is None or pg_ctl is None:
        pytest.skip("no PostgreSQL server binaries on this machine")
    folder = Path(tempfile.mkdtemp(prefix="warpwatch-pg-", dir="/tmp"))
    as_user: list[str] = []
    if os.geteuid() == 0:  # the server refuses to run as root
        user = "postgres" if any(entry.pw_name == "postgres" for entry in pwd.getpwall()) else "nobody"
        shutil.chown(folder, user)
        as_user = ["runuser", "-u", user, "--"]
    try:
        run = [
            *as_user,
            initdb,
            "-D",
            str(folder / "data"),
            "-A",
            "trust",
            "-U",
            "warpwatch",
            "--no-sync",
            "-E",
            "UTF8",
        ]
        subprocess.run(run, check=True, capture_output=True, cwd="/")
        options = f"-c listen_addresses='' -c unix_socket_directories={folder} -c fsync=off -c shared_buffers=32MB"
        log = ["-l", str(folder / "log")]
        start = [pg_ctl, "-D", str(folder / "data"), "-o", options, *log, "-w", "-t", "300", "start"]
        subprocess.run([*as_user, *start], check=True, capture_output=True, cwd="/")
        try:
            yield folder
        finally:
            stop = [pg_ctl, "-D", str(folder / "data"), "-m", "immediate", "stop"]
            subprocess.run([*as_user, *stop], check=True, capture_output=True, cwd="/")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


_numbers = itertools.count(1)
_empty: list[str] = []  # databases with all tables, left by earlier tests of this process


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of an empty database; a test that takes it runs on both kinds.

    PostgreSQL's has the tables, without rows, if the test also takes `store`, which would create them.
    """
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'history.db'}"
        return
    folder = request.getfixturevalue("postgresql_server")
    is_for_a_store = "store" in request.fixturenames
    if is_for_a_store and _empty:
        name = _empty.pop()
    else:
        name = f"test_{next(_numbers)}"
        _on_server(folder, f"CREATE DATABASE {name}")
    yield f"postgresql://warpwatch@/{name}?host={folder}"
    if is_for_a_store and _emptied(folder, name):
        _empty.append(name)
    else:
        _on_server(folder, f"DROP DATABASE {name} WITH (FORCE)")  # there are hundreds, of eight megabytes each


def _emptied(folder: Path, name: str) -> bool:
    """Delete all rows, which takes a fifth of what another database takes. False where the test left other tables."""
    _on_server(folder, f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")
    tables = ", ".join(f'"{table}"' for table in metadata.tables)
    with suppress(psycopg.errors.UndefinedTable):
        _on_server(folder, f"TRUNCATE {tables} RESTART IDENTITY", database=name)
        return True
    return False


def _on_server(folder: Path, statement: str, database: str = "postgres") -> None:
    with psycopg.connect(f"host={folder} user=warpwatch dbname={database}", autocommit=True) as connection:
        connection.execute(statement)

"""Databases to test on, a real PostgreSQL among them, and a builder of asv results folders."""

import itertools
import os
import pwd
import shutil
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

from tests.asv_results import AsvResults, hash_of
from warpwatch.dashboard.store import Store
from warpwatch.dashboard.store.schema import metadata


def _postgresql(name: str) -> str | None:
    newest = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda p: int(p.parts[-3]))
    return shutil.which(name) or (str(newest[-1]) if newest else None)


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[Path]:
    """A PostgreSQL server on a unix socket in a folder of its own; gives the folder."""
    initdb, pg_ctl = _postgresql("initdb"), _postgresql("pg_ctl")
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
# Databases with all tables, left by earlier tests of this process, by their server's folder.
_empty: dict[Path, list[str]] = defaultdict(list)


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of an empty database; a test that takes it runs on both kinds.

    Beside `store`, which creates the tables, PostgreSQL's may have them already.
    """
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'history.db'}"
        return
    folder = request.getfixturevalue("postgresql_server")
    is_for_a_store = "store" in request.fixturenames
    if is_for_a_store and _empty[folder]:
        name = _empty[folder].pop()
    else:
        name = f"test_{next(_numbers)}"
        _on_server(folder, f"CREATE DATABASE {name}")
    yield f"postgresql://warpwatch@/{name}?host={folder}"
    if is_for_a_store and _emptied(folder, name):
        _empty[folder].append(name)
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


@pytest.fixture
def store(database: str) -> Iterator[Store]:
    """An empty store, on both kinds of database."""
    opened = Store(database)
    yield opened
    opened.close()


@pytest.fixture
def sqlite_store(tmp_path: Path) -> Iterator[Store]:
    """An empty store on SQLite, for what does not depend on the database."""
    opened = Store(str(tmp_path / "history.db"))
    yield opened
    opened.close()


@pytest.fixture
def commit_hash() -> Callable[[int], str]:
    """The hash that `AsvResults.commit` gives the number-th commit."""
    return hash_of


@pytest.fixture
def asv(tmp_path: Path) -> AsvResults:
    """An empty results folder."""
    return AsvResults(tmp_path / "results")


@pytest.fixture
def timed_history(asv: AsvResults) -> Callable[..., AsvResults]:
    """Writes one parameterless benchmark over commits: values in seconds, a commit each."""

    def write(values: list[float], *, name: str = "suite.Bench.track_latency", first: int = 0) -> AsvResults:
        asv.benchmark(name)
        for number, value in enumerate(values, start=first):
            asv.commit(number, {name: asv.row([value], started_at=number + 1, spread=0.002)})
        return asv

    return write

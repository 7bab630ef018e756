"""A disk that has no room left: a sentence, a store that still answers, and everything in once there is room."""

import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from tests.asv_results import AsvResults
from tests.commands import run_command
from tools.store_state import state_of
from warpwatch.dashboard.store import Store, queries

BENCH = "suite.Bench.time_it"
_ROOM = 1_200_000  # bytes: enough for an empty store with its log, not for the results
_PLENTY = 64_000_000


@contextmanager
def _disk(folder: Path, size: int) -> Iterator[Path]:
    folder.mkdir(mode=0o777)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    if os.geteuid() or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a small disk wants a right to mount")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def _resize(disk: Path, size: int) -> None:
    subprocess.run(["mount", "-o", f"remount,size={size}", str(disk)], check=True)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of its own of that size."""
    with _disk(tmp_path / "disk", _ROOM) as disk:
        yield disk


@pytest.fixture
def small_tablespace(postgresql_server: Path) -> Iterator[tuple[str, Path]]:
    """An empty database whose tables are on a disk of their own, and that disk."""
    with _disk(postgresql_server / "disk", _PLENTY) as disk:
        shutil.chown(disk, postgresql_server.owner())
        with psycopg.connect(f"host={postgresql_server} user=warpwatch dbname=postgres", autocommit=True) as server:
            server.execute(f"CREATE TABLESPACE small LOCATION '{disk}'")
            server.execute("CREATE DATABASE on_a_small_disk TABLESPACE small")
            try:
                yield f"postgresql://warpwatch@/on_a_small_disk?host={postgresql_server}", disk
            finally:
                server.execute("DROP DATABASE on_a_small_disk WITH (FORCE)")
                server.execute("DROP TABLESPACE small")


@pytest.fixture
def first(asv: AsvResults) -> AsvResults:
    asv.benchmark(BENCH, size=["1"])
    asv.commit(0, {BENCH: asv.row([1.0], [["1"]])})
    return asv


def _fill(asv: AsvResults) -> None:
    """Results that take more than the room there is: numbers of which none is like another."""
    sizes = [str(n) for n in range(100)]
    asv.benchmark(BENCH, size=sizes)
    for number in range(1, 5):
        values = [(n + 1) ** 0.5 * number for n in range(100)]
        samples = [[value * (1 + k**0.5 / 1000) for k in range(600)] for value in values]
        asv.commit(number, {BENCH: asv.row(values, [sizes], started_at=number, samples=samples)})


def _import(folder: Path, database: str) -> "subprocess.CompletedProcess[str]":
    return run_command("import", folder, "--project", "demo", "--database", database, folder=folder)


def _is_made_whole(asv: AsvResults, database: str, tmp_path: Path) -> bool:
    fresh = Store(str(tmp_path / "fresh.db"))
    asv.load(fresh)
    done, store = _import(asv.folder, database), Store(database)
    assert done.returncode == 0, done.stderr
    try:
        return bool(state_of(store) == state_of(fresh))
    finally:
        store.close()
        fresh.close()


def test_a_full_disk_is_reported_and_costs_nothing_that_was_in(
    small_disk: Path, first: AsvResults, tmp_path: Path
) -> None:
    database = str(small_disk / "history.db")
    assert _import(first.folder, database).returncode == 0
    _fill(first)
    done = _import(first.folder, database)
    assert done.returncode == 70
    assert done.stderr.splitlines() == [
        "Error: the database failed: database or disk is full. Completed work is stored; free some disk space,"
        " then import again to add the rest"
    ]
    store = Store(database)
    assert len(queries.find_series(store, "demo").series) == 1
    store.close()
    _resize(small_disk, _PLENTY)
    assert _is_made_whole(first, database, tmp_path)


def test_a_full_disk_under_postgresql_is_reported_and_costs_nothing_that_was_in(
    small_tablespace: tuple[str, Path], first: AsvResults, tmp_path: Path
) -> None:
    database, disk = small_tablespace
    assert _import(first.folder, database).returncode == 0
    Store(database).close()  # leaves what the server writes for the connections to come
    used = shutil.disk_usage(disk).used  # an empty database has some megabytes, in each version others
    _resize(disk, used + 400_000)
    _fill(first)
    done = _import(first.folder, database)
    assert done.returncode == 70
    (line,) = done.stderr.splitlines()
    assert line.startswith("Error: the database failed: could not extend file")
    assert line.endswith("Completed work is stored; free some disk space, then import again to add the rest")
    _resize(disk, _PLENTY)  # first: without any room the server may not even take a connection
    store = Store(database)
    assert len(queries.find_series(store, "demo").series) == 1
    store.close()
    assert _is_made_whole(first, database, tmp_path)


def test_a_limit_on_the_size_of_files_is_reported_too(first: AsvResults, tmp_path: Path) -> None:
    database = str(tmp_path / "history.db")
    assert _import(first.folder, database).returncode == 0
    _fill(first)
    command = [sys.executable, "-m", "warpwatch.ci.cli", "import", str(first.folder), "--project", "demo"]
    done = subprocess.run(
        [*command, "--database", database],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (_ROOM // 2, _ROOM // 2)),
    )
    assert done.returncode == 70
    (line,) = done.stderr.splitlines()
    assert line.startswith("Error: the database failed: ")
    assert line.endswith("import again to add the rest")
    assert _is_made_whole(first, database, tmp_path)


def test_a_disk_too_full_to_create_a_store_is_reported(small_disk: Path, first: AsvResults) -> None:
    (small_disk / "filler").write_bytes(b"\1" * (_ROOM // 4096 * 4096 - 40_960))
    done = _import(first.folder, str(small_disk / "history.db"))
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("Error: cannot open the database")
    assert line.endswith("database or disk is full")

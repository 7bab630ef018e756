"""The store opens, migrates and takes turns, on both databases."""

import sqlite3
import struct
import subprocess
import sys
import threading
import zlib
from pathlib import Path

import numpy as np
import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import func, insert, inspect, select, text
from sqlalchemy.exc import IntegrityError

from warpwatch.dashboard.store import Store, StoreError
from warpwatch.dashboard.store.marks import Marks
from warpwatch.dashboard.store.migrate import alembic_config
from warpwatch.dashboard.store.points import read_points, read_samples
from warpwatch.dashboard.store.tables import metadata, project, run, series, workload


def test_the_migrations_make_the_tables_that_the_code_uses(store: Store) -> None:
    with store.read() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []
        assert set(metadata.tables) <= set(inspect(connection).get_table_names())


def test_processes_that_open_a_new_database_at_once_all_succeed(database: str) -> None:
    script = "import sys; from warpwatch.dashboard.store import Store; Store(sys.argv[1])"
    started = [
        subprocess.Popen([sys.executable, "-c", script, database], stderr=subprocess.PIPE, text=True) for _ in range(4)
    ]
    failures = [error for process in started if (error := process.communicate(timeout=60)[1]) or process.returncode]
    assert failures == []


def test_a_database_of_the_first_schema_is_brought_up_with_what_it_holds(database: str) -> None:
    """Points and samples move; a run's card and a workload's lack of controls are told from what was recorded."""
    store = Store(database)
    with store.engine.begin() as connection:  # no transaction of a store's own, which counts in tables of today
        config = alembic_config()
        config.attributes["connection"] = connection
        metadata.drop_all(connection)
        connection.execute(text("DROP TABLE alembic_version"))
        command.upgrade(config, "0001")
        for statement in (
            "INSERT INTO project (id, name) VALUES (1, 'p')",
            "INSERT INTO machine (id, project_id, name, details) VALUES (1, 1, 'm', '{}')",
            "INSERT INTO environment (id, project_id, name) VALUES (1, 1, 'e')",
            "INSERT INTO \"commit\" (id, project_id, hash, date_ms) VALUES (1, 1, 'c', 0)",
            "INSERT INTO workload (id, project_id, suite, name, operator, dtype, flops, bytes, parameters, kernels,"
            " baselines) VALUES (1, 1, 's', 'w', 'o', 'fp16', 1, 1, '{}', '[]', '[]')",
        ):
            connection.execute(text(statement))
        for number, context in enumerate(('{"gpu": {"uuid": "GPU-1"}}', '{"gpu": null}', None), start=1):
            connection.execute(
                text("INSERT INTO run (id, project_id, machine_id, environment_id, commit_id, name, context)"
                     " VALUES (:id, 1, 1, 1, 1, :name, :context)"),
                {"id": number, "name": f"r{number}", "context": context},
            )  # fmt: skip
        for statement in (
            "INSERT INTO benchmark (id, project_id, name) VALUES (1, 1, 'b')",
            "INSERT INTO series (id, project_id, benchmark_id, machine_id, environment_id, key, parameters, metric,"
            " unit) VALUES (1, 1, 1, 1, 1, 'k', '[]', 'latency', 'seconds')",
            "INSERT INTO measurement VALUES (1, 1, 1, 0.1, 0.09, 0.11, 3, 0, NULL)",
            "INSERT INTO measurement VALUES (1, 1, 2, NULL, NULL, NULL, NULL, 2, 'it crashed')",
            'INSERT INTO recorded (commit_id, machine_id, environment_id, marks) VALUES (1, 1, 1, \'{"b": ["7-ab"]}\')',
        ):
            connection.execute(text(statement.replace(":", r"\:")))
        deflated = zlib.compress(struct.pack("<3d", 0.1, 0.09, 0.11))
        connection.execute(text("INSERT INTO samples VALUES (1, 1, 1, :data)"), {"data": deflated})
    store.close()
    store = Store(database)
    with store.read() as connection:
        assert connection.execute(select(run.c.card).order_by(run.c.id)).scalars().all() == ["GPU-1", None, None]
        assert connection.execute(select(workload.c.controls)).scalars().all() == [[]]
        points = read_points(connection, [1])[1]
        assert (points.run.tolist(), points.status.tolist(), points.count.tolist()) == ([1, 2], [0, 2], [3, -1])
        assert points.value[0] == 0.1
        assert np.isnan(points.value[1])
        assert points.reasons[points.reason[1] - 1] == "it crashed"
        assert read_samples(connection, [1])[1].samples.tolist() == [0.1, 0.09, 0.11]
        assert Marks(connection).at((1, 1, 1)) == {"b": ["7-ab"]}
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []
    store.close()


def test_a_database_of_a_newer_version_is_refused(database: str) -> None:
    store = Store(database)
    with store.write("test") as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    store.close()
    with pytest.raises(StoreError, match="9999"):
        Store(database)


def test_writers_under_one_lock_take_turns(store: Store) -> None:
    """Each thread reads the count and writes a project named by it: twice the same name would break a unique key."""

    def add() -> None:
        for _ in range(5):
            with store.write("projects") as connection:
                count = connection.execute(select(func.count()).select_from(project)).scalar_one()
                connection.execute(insert(project).values(name=f"project {count}"))

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with store.read() as connection:
        assert connection.execute(select(func.count()).select_from(project)).scalar_one() == 20


def test_a_failed_transaction_leaves_no_trace(store: Store) -> None:
    def fail_halfway() -> None:
        with store.write("projects") as connection:
            connection.execute(insert(project).values(name="half"))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_halfway()
    with store.read() as connection:
        assert connection.execute(select(project.c.name)).all() == []


def test_foreign_keys_are_kept(store: Store) -> None:
    row = {"project_id": 7, "benchmark_id": 7, "machine_id": 7, "environment_id": 7, "key": "k", "parameters": [],
           "metric": "latency", "unit": "seconds"}  # fmt: skip
    with pytest.raises(IntegrityError), store.write("test") as connection:
        connection.execute(insert(series).values(**row))


def test_sqlite_reads_while_another_writes(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "history.db"))
    with store.write("one") as writer:
        writer.execute(insert(project).values(name="unseen"))
        with store.read() as reader:
            assert reader.execute(select(project.c.name)).all() == []
    store.close()


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("mysql://host/name", "not supported"),
        ("sqlite://", "wants a file"),
        ("postgresql://warpwatch@/none?host=/nowhere", "cannot open"),
        ("not a url://", "no database URL"),
    ],
)
def test_a_database_that_cannot_serve_is_refused_with_a_reason(url: str, said: str) -> None:
    with pytest.raises(StoreError, match=said):
        Store(url)


def test_a_store_made_while_another_process_holds_the_file_waits_for_it(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("CREATE TABLE something (x)")
    other.execute("BEGIN IMMEDIATE")  # the lock for which SQLite does not wait when it turns write-ahead logging on
    release = threading.Timer(0.5, other.rollback)
    release.start()
    Store(str(path)).close()
    release.join()
    other.close()

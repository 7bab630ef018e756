"""The store opens, migrates and takes turns, on both databases."""

import shutil
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import func, insert, inspect, select, text
from sqlalchemy.exc import IntegrityError

from warpwatch.dashboard.store import Store, StoreError, engine
from warpwatch.dashboard.store.schema import metadata, project, series


def test_a_new_database_has_the_tables_that_the_code_uses(store: Store) -> None:
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


def test_a_database_of_an_older_schema_is_migrated(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(database)
    with store.write("projects") as connection:
        connection.execute(insert(project).values(name="kept"))
    store.close()
    folder = shutil.copytree(engine.MIGRATIONS, tmp_path / "migrations")
    (folder / "versions" / "0004_owner.py").write_text(
        "from alembic import op\nimport sqlalchemy as sa\n"
        "revision = '0004'\ndown_revision = '0003'\n"
        "def upgrade() -> None:\n    op.add_column('project', sa.Column('owner', sa.String, server_default='us'))\n"
    )
    monkeypatch.setattr(engine, "MIGRATIONS", folder)
    store = Store(database)
    with store.read() as connection:
        assert connection.execute(text("SELECT name, owner FROM project")).all() == [("kept", "us")]
        assert connection.execute(text("SELECT version_num FROM alembic_version")).scalars().all() == ["0004"]
    store.close()


def test_a_database_of_an_unknown_schema_is_refused(database: str) -> None:
    store = Store(database)
    with store.write("test") as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    store.close()
    with pytest.raises(StoreError, match="schema '9999', which this version of warpwatch does not know"):
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
    row = {
        "project_id": 7,
        "benchmark_id": 7,
        "machine_id": 7,
        "environment_id": 7,
        "key": "k",
        "parameters": [],
        "metric": "latency",
        "unit": "seconds",
    }
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
        ("sqlite://", "needs a file"),
        ("postgresql://warpwatch@/none?host=/nowhere", "cannot open"),
        ("not a url://", "not a database URL"),
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

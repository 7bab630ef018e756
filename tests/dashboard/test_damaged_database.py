"""A database that is damaged, cannot be written or is none: a sentence, and no traceback."""

from pathlib import Path

import pytest
from flask import Flask

from tests.asv_results import AsvResults
from tests.commands import run_command
from warpwatch.dashboard.settings import Settings
from warpwatch.dashboard.store import Store, StoreError
from warpwatch.dashboard.store.engine import Store as _Store
from warpwatch.dashboard.store.tokens import Scope, create_token, use_token
from warpwatch.dashboard.web.app import create_app


def _damage(path: Path) -> None:
    """Everything behind the first page, as a failing disk leaves it."""
    for companion in path.parent.glob(f"{path.name}-*"):
        companion.unlink()
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xa5" * (size - 4096))


@pytest.fixture
def damaged(tmp_path: Path, asv: AsvResults) -> Flask:
    """A dashboard whose database is damaged once it is open."""
    path = tmp_path / "history.db"
    store = Store(str(path))
    asv.commit(1, {"suite.time_it": asv.row([1.0])})
    asv.load(store)
    store.close()
    app = create_app(Settings(database=f"sqlite:///{path}"))
    app.extensions["store"].close()
    _damage(path)
    return app


@pytest.mark.parametrize("path", ["/", "/demo/", "/demo/series", "/api/projects", "/api/projects/demo/overview"])
def test_pages_say_that_the_database_is_damaged(path: str, damaged: Flask) -> None:
    answer = damaged.test_client().get(path)
    assert answer.status_code == 503
    assert "damaged" in answer.get_data(as_text=True)
    assert "Traceback" not in answer.get_data(as_text=True)


def _none(path: Path) -> None:
    path.write_bytes(b"no database, but some text\n" * 1000)


def _folder(path: Path) -> None:
    path.mkdir()


def _broken(path: Path) -> None:
    _Store(str(path)).close()
    _damage(path)


@pytest.mark.parametrize("make", [_none, _folder, _broken])
@pytest.mark.parametrize("command", [["serve", "--port", "0"], ["report"], ["token", "list"]], ids=" ".join)
def test_commands_say_so_in_a_sentence(make: object, command: list[str], tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    make(path)  # type: ignore[operator]
    done = run_command(*command, folder=tmp_path, environment={"WARPWATCH_DATABASE": f"sqlite:///{path}"})
    assert done.returncode != 0
    assert done.stderr.startswith("Error: cannot open the database")
    assert "Traceback" not in done.stderr


def test_an_unavailable_database_is_reported_as_well(tmp_path: Path) -> None:
    environment = {"WARPWATCH_DATABASE": "postgresql://127.0.0.1:1/none"}
    done = run_command("serve", "--port", "0", folder=tmp_path, environment=environment)
    assert done.returncode != 0
    assert done.stderr.startswith("Error: cannot open the database")


def test_a_token_reads_from_a_database_that_cannot_be_written(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "history.db"))
    secret = create_token(store, "demo", name="reader", scope=Scope.READ, now_ms=1)
    with store.engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA query_only=ON")  # of the pool's one connection
    found = use_token(store, secret, now_ms=10_000_000)
    assert found is not None
    assert found.name == "reader"
    store.close()


def test_what_is_acknowledged_is_on_the_disk(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "history.db"))
    with store.read() as connection:
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2  # FULL
    store.close()


def test_a_store_that_cannot_be_opened_has_no_connection_left(tmp_path: Path) -> None:
    _none(tmp_path / "history.db")
    with pytest.raises(StoreError, match="damaged, or not an SQLite database"):
        Store(str(tmp_path / "history.db"))

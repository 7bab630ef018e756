"""A store with both histories, imported and analysed once, and the clock at a fixed time."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import time_machine
from click.testing import CliRunner
from flask.testing import FlaskClient
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from tests.golden.histories import NOW, database_in, recorded_histories
from warpwatch.ci.cli import main
from warpwatch.dashboard.settings import Settings
from warpwatch.dashboard.web.app import create_app


class TextFile(SingleFileSnapshotExtension):
    """A snapshot is a text file of its own, so that a diff shows the page that changed."""

    _write_mode = WriteMode.TEXT
    file_extension = "txt"


@pytest.fixture
def snapshot(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    return snapshot.use_extension(TextFile)


@pytest.fixture(scope="module", autouse=True)
def fixed_time() -> Iterator[None]:
    """Of a module and no longer: under a clock that stands still, other tests' timeouts would never come."""
    with time_machine.travel(NOW, tick=False):
        yield


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the repository, its results and a store into which `warpwatch import` brought both histories."""
    return recorded_histories(tmp_path_factory)


@pytest.fixture(scope="session")
def repository(recorded: Path) -> Path:
    """The git repository of project `kernels`."""
    return recorded / "repository"


@pytest.fixture(scope="session")
def database(recorded: Path) -> str:
    """The store's URL."""
    return database_in(recorded)


@pytest.fixture(scope="session")
def client(database: str) -> FlaskClient:
    """The dashboard over that store."""
    return create_app(Settings(database=database)).test_client()


@pytest.fixture
def run(database: str, repository: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Runs a command of warpwatch on that store; gives its exit status and output as text."""
    monkeypatch.chdir(repository)

    def invoke(*arguments: str) -> str:
        done = CliRunner().invoke(main, [*arguments, "--database", database])
        return f"exit status {done.exit_code}\n{done.output}".replace(database, "DATABASE")

    return invoke

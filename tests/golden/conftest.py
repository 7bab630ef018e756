"""A store with both histories, imported and analysed once, and the clock at a fixed time."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import time_machine
from click.testing import CliRunner
from flask.testing import FlaskClient
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from tests.dashboard.pages.recorded import write_recorded
from tests.golden.histories import write_h200_excerpt
from tests.once_per_run import once_per_run
from warpwatch.ci.cli import main
from warpwatch.dashboard.settings import Settings
from warpwatch.dashboard.web.app import create_app

NOW = datetime(2026, 11, 23, 12, 0, tzinfo=UTC)


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
    return once_per_run(tmp_path_factory, "golden", _record)


def _record(folder: Path) -> None:
    with time_machine.travel(NOW, tick=False):
        repository, results = write_recorded(folder)
    excerpt = write_h200_excerpt(folder / "h200")
    for arguments in (
        ["import", str(results), "--project", "kernels", "--repository", str(repository)],
        ["import", str(excerpt), "--project", "h200"],
    ):
        with time_machine.travel(NOW, tick=False):
            done = CliRunner().invoke(main, [*arguments, "--database", _url(folder)])
        assert done.exit_code == 0, done.output


def _url(folder: Path) -> str:
    return f"sqlite:///{folder / 'history.db'}"


@pytest.fixture(scope="session")
def repository(recorded: Path) -> Path:
    """The git repository of project `kernels`."""
    return recorded / "repository"


@pytest.fixture(scope="session")
def database(recorded: Path) -> str:
    """The store's URL."""
    return _url(recorded)


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

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
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The git repository of project `kernels`; its results folder lies beside it."""
    with time_machine.travel(NOW, tick=False):
        path, _ = write_recorded(tmp_path_factory.mktemp("golden"))
    return path


@pytest.fixture(scope="session")
def database(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The URL of a store into which `warpwatch import` brought both histories."""
    folder = tmp_path_factory.mktemp("golden-store")
    url = f"sqlite:///{folder / 'history.db'}"
    excerpt = write_h200_excerpt(folder / "h200")
    for arguments in (
        ["import", str(repository.parent / "results"), "--project", "kernels", "--repository", str(repository)],
        ["import", str(excerpt), "--project", "h200"],
    ):
        with time_machine.travel(NOW, tick=False):
            done = CliRunner().invoke(main, [*arguments, "--database", url])
        assert done.exit_code == 0, done.output
    return url


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

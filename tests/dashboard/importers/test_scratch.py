"""Temporary folders: removed in the end, and after a kill when the next server starts."""

import subprocess
import sys
from pathlib import Path

import pytest

from warpwatch.dashboard.importers.input_files import remove_abandoned, scratch_folder
from warpwatch.dashboard.settings import Settings
from warpwatch.dashboard.web.app import create_app

HOLDS = """
from warpwatch.dashboard.importers.input_files import scratch_folder
with scratch_folder() as folder:
    (folder / "upload" / "deep").mkdir(parents=True)
    print("ready", flush=True)
    input()
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of temporary files, of this test's own."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


def _holder() -> subprocess.Popen[str]:
    command = [sys.executable, "-c", HOLDS]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def test_a_folder_is_removed_whatever_happens(temporary: Path) -> None:
    with scratch_folder() as folder:
        (folder / "deep" / "er").mkdir(parents=True)
    assert list(temporary.iterdir()) == []
    with pytest.raises(FileExistsError), scratch_folder() as folder:
        folder.mkdir()
    assert list(temporary.iterdir()) == []


def test_a_server_that_starts_removes_what_a_killed_one_left_and_nothing_else(temporary: Path, tmp_path: Path) -> None:
    (temporary / "somebody-elses").mkdir()
    killed, at_work = _holder(), _holder()
    killed.kill()
    killed.wait(timeout=60)
    assert len(list(temporary.iterdir())) == 3
    with scratch_folder() as mine:
        app = create_app(Settings(database=f"sqlite:///{tmp_path / 'history.db'}"))
        app.extensions["store"].close()
        assert mine.is_dir()
        assert len(list(temporary.iterdir())) == 3  # mine, the one at work's, and somebody else's
    at_work.communicate("\n", timeout=60)
    assert [path.name for path in temporary.iterdir()] == ["somebody-elses"]


def test_removing_twice_at_once_is_no_error(temporary: Path) -> None:
    remove_abandoned()
    (temporary / "warpwatch-import-file").write_text("no folder")
    (temporary / "warpwatch-import-link").symlink_to("/")
    remove_abandoned()
    assert len(list(temporary.iterdir())) == 2

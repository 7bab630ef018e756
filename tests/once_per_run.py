"""What is expensive to make and only read: made by the first worker that wants it, for all workers of a run."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock


def once_per_run(tmp_path_factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]) -> Path:
    """A folder of that name, filled by `make`; a worker that comes meanwhile waits for it."""
    base = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent  # a worker's own folder lies in the run's
    folder = base / name
    with FileLock(base / f"{name}.lock"):
        if not (folder / "made").exists():
            folder.mkdir()
            make(folder)
            (folder / "made").touch()
    return folder

"""asv's virtualenv of a project without requirements, made once a run: pip takes eight CPU seconds for each."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .once_per_run import once_per_run

_CONF = {
    "version": 1,
    "project": "none",
    "repo": ".",
    "branches": ["HEAD"],
    "environment_type": "virtualenv",
    "env_dir": ".asv/env",
    "results_dir": ".asv/results",
    "build_command": [],
    "install_command": [],
    "uninstall_command": [],
}


def put_asv_environment(tmp_path_factory: pytest.TempPathFactory, project: Path) -> None:
    """A copy of it where asv looks for the project's own, in `.asv/env`."""
    made = once_per_run(tmp_path_factory, "asv-environment", _make)
    shutil.copytree(made / ".asv/env", project / ".asv/env", symlinks=True, copy_function=os.link)


def _make(folder: Path) -> None:
    (folder / "benchmarks").mkdir()
    (folder / "benchmarks/__init__.py").touch()
    (folder / "asv.conf.json").write_text(json.dumps(_CONF))
    git = ["git", "-c", "user.name=A", "-c", "user.email=a@example.org"]
    for words in (["init", "--quiet"], ["add", "benchmarks"], ["commit", "--quiet", "--message", "none"]):
        subprocess.run([*git, *words], cwd=folder, check=True)
    # Its exit status is 1 also when all went well.
    done = subprocess.run(
        [sys.executable, "-m", "asv", "setup"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert list(folder.glob(".asv/env/*/asv-env-info.json")), done.stdout + done.stderr

"""The command `warpwatch`, before any sub-command begins."""

import os
import subprocess
import sys

_LOAD = """
import os, sys
from pathlib import Path
from warpwatch.ci.cli import main
main.get_command(None, "import")
print("numpy" in sys.modules, len(list(Path("/proc/self/task").iterdir())), os.environ.get("OPENBLAS_NUM_THREADS"))
"""


def test_numpy_starts_no_threads_and_child_processes_do_not_inherit_it() -> None:
    assert _loaded(environment={}) == "True 1 None"


def test_a_given_number_of_blas_threads_is_kept() -> None:
    assert _loaded(environment={"OPENBLAS_NUM_THREADS": "2"}).endswith(" 2")


def _loaded(environment: dict[str, str]) -> str:
    environ = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"} | environment
    done = subprocess.run([sys.executable, "-c", _LOAD], env=environ, capture_output=True, text=True, check=True)
    return done.stdout.strip()

"""The command line, run in this process: as a process of its own runs it, without the second that a start takes."""

import contextlib
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from click.testing import CliRunner

from warpwatch.ci.cli import main


def run_command(
    *words: str | Path, folder: Path, environment: Mapping[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    """`warpwatch WORDS` in a folder, without the settings of the machine; exit status and both outputs.

    tests/dashboard/test_exit_status.py runs real processes: signals, closed pipes, missing libraries.
    """
    unset = {name: None for name in os.environ if name.startswith("WARPWATCH_")}
    with contextlib.chdir(folder):
        done = CliRunner(env={**unset, **(environment or {})}).invoke(main, [str(word) for word in words])
    return subprocess.CompletedProcess(words, done.exit_code, done.stdout, done.stderr)

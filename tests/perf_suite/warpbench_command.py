"""The command `warpbench`, run in this process: as a process of its own runs it, without three seconds of imports."""

import contextlib
import io
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from unittest import mock

import pytest

from warpbench.cli import main


def run_warpbench(
    *words: str, folder: Path, environment: Mapping[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    """`warpbench WORDS` in a folder: exit status and both outputs. An exception that would be a traceback is raised."""
    output, errors = io.StringIO(), io.StringIO()
    status = 0
    with pytest.MonkeyPatch.context() as patch, mock.patch.dict(os.environ, environment or {}):  # what it sets, too
        patch.chdir(folder)
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
            try:
                main(list(words))
            except SystemExit as end:
                status = int(end.code or 0)
    return subprocess.CompletedProcess(words, status, output.getvalue(), errors.getvalue())

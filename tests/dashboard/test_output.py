"""Where a command writes: lines are cut for a terminal alone."""

import os
import pty
import subprocess
import sys
from pathlib import Path

_PRINT = "from warpwatch.dashboard.cli.output import table_width; print(table_width(None))"


def _width(stdout: int, **more: str) -> None:
    environment = {key: value for key, value in os.environ.items() if key != "COLUMNS"} | more
    subprocess.run([sys.executable, "-c", _PRINT], env=environment, stdout=stdout, check=True)


def test_a_terminal_cuts_lines_at_its_width_or_at_columns(tmp_path: Path) -> None:
    ours, its = pty.openpty()
    os.set_blocking(ours, True)
    _width(its, COLUMNS="57")
    assert os.read(ours, 100) == b"57\r\n"
    os.close(its)
    os.close(ours)


def test_a_pipe_cuts_nothing(tmp_path: Path) -> None:
    with (tmp_path / "out").open("wb") as out:
        _width(out.fileno(), COLUMNS="57")
    assert (tmp_path / "out").read_text() == "None\n"

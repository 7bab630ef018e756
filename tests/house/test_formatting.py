"""The formatter decides how code looks; one table of data is set by hand."""

import subprocess
from pathlib import Path

HOUSE = Path(__file__).resolve().parents[2]
OPT_OUT = "# fmt" + ": "
GPUS = "perf_suite/warpbench/src/warpbench/machines.py"  # two lines a GPU, where the formatter takes fourteen


def test_no_other_code_is_kept_from_the_formatter() -> None:
    listed = subprocess.run(["git", "ls-files", "*.py"], cwd=HOUSE, capture_output=True, text=True, check=True)
    files = listed.stdout.split()
    assert len(files) > 500
    assert [file for file in files if OPT_OUT in (HOUSE / file).read_text()] == [GPUS]

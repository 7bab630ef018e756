"""Faults of ours in a sentence, for the log, where one must not end the work on everything else."""

import traceback
from pathlib import Path


def located(error: Exception) -> str:
    """What went wrong, and the line that raised it: "ValueError: no values, noise.py line 12"."""
    return f"{type(error).__name__}: {error}, {line_of(error)}"


def line_of(error: Exception) -> str:
    """The line that raised it: "noise.py line 12"."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{Path(last.filename).name} line {last.lineno}"

"""One-line description of an exception for the log, with its location."""

import traceback
from pathlib import Path


def located(error: Exception) -> str:
    """Type, message and location: "ValueError: no values, noise.py line 12"."""
    return f"{type(error).__name__}: {error}, {line_of(error)}"


def line_of(error: Exception) -> str:
    """Line that raised the error: "noise.py line 12"."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{Path(last.filename).name} line {last.lineno}"

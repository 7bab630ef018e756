"""What the profiled process says of itself, in a file: its output belongs to the profiler. No torch here."""

import json
from dataclasses import dataclass
from pathlib import Path

from ..records import RunRecord, from_line, to_line


@dataclass(frozen=True, slots=True, kw_only=True)
class CallReport:
    """The machine, and how the calls went."""

    run: RunRecord
    reason: str | None = None  # why there is nothing to profile; None if the calls were made and right
    backend: str | None = None  # the library kernel family taken, where the implementation chooses one


def write_report(report: CallReport, path: Path) -> None:
    """The run's line, then the rest as one JSON object."""
    path.write_text(f"{to_line(report.run)}\n{json.dumps({'reason': report.reason, 'backend': report.backend})}\n")


def read_report(path: Path) -> CallReport:
    """The inverse of write_report. Raises ValueError if the file holds no run."""
    first, second = path.read_text().splitlines()
    run = from_line(first)
    if not isinstance(run, RunRecord):
        raise ValueError(f"wanted a run record in {path}, got {first[:80]!r}")
    return CallReport(run=run, **json.loads(second))

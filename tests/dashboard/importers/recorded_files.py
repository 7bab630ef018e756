"""What the tests of readers share: the recorded files, and a way to read them."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from warpwatch.dashboard.importers.formats import read_any
from warpwatch.dashboard.importers.input_files import ImportOverrides
from warpwatch.dashboard.model.result_file import ResultFile, Value

RECORDED = Path(__file__).with_name("recorded")
COMMIT = "ab" * 20
GIVEN = ImportOverrides(commit=COMMIT, date_ms=1_700_000_000_000)


def recorded(name: str) -> dict[str, Any]:
    """A recorded file, to be changed."""
    data: dict[str, Any] = json.loads((RECORDED / name).read_bytes())
    return data


def read(
    data: Mapping[str, Any], overrides: ImportOverrides = GIVEN, companions: Mapping[str, bytes] | None = None
) -> tuple[ResultFile, ...]:
    """Reads it as a file; `companions` are the files that belong to it."""
    return read_any(json.dumps(data).encode(), "report.json", overrides, (companions or {}).get)


def values(result: ResultFile, benchmark: str) -> dict[tuple[str, ...], Value]:
    """A benchmark's values by parameters."""
    (entry,) = (entry for entry in result.entries if entry.benchmark == benchmark)
    return {value.parameters: value for value in entry.values}

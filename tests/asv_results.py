"""Writes asv results folders, for whatever reads them."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from warpwatch.dashboard.analysis.series_analysis import analyse
from warpwatch.dashboard.importers.asv_folder import open_folder
from warpwatch.dashboard.importers.import_asv import ImportSummary, import_results
from warpwatch.dashboard.store import Store

COLUMNS = (
    "result",
    "params",
    "version",
    "started_at",
    "duration",
    "stats_ci_99_a",
    "stats_ci_99_b",
    "stats_q_25",
    "stats_q_75",
    "stats_number",
    "stats_repeat",
    "samples",
    "profile",
)
START_MS = 1_750_000_000_000  # of the first commit
HOUR_MS = 3_600_000


@dataclass
class AsvResults:
    """Writes an asv results folder as asv 0.6 does: trailing columns left out, bare NaN, one line a benchmark."""

    folder: Path
    listed: dict[str, dict[str, Any]] = field(default_factory=dict)

    def benchmark(self, name: str, *, unit: str = "seconds", kind: str = "track", **params: list[str]) -> None:
        """Lists a benchmark in benchmarks.json."""
        self.listed[name] = {
            "name": name,
            "unit": unit,
            "type": kind,
            "version": "1",
            "param_names": list(params),
            "params": list(params.values()),
        }
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "benchmarks.json").write_text(json.dumps({**self.listed, "version": 2}))

    def row(
        self,
        result: Any,
        params: list[list[str]] | None = None,
        *,
        started_at: int = 1,
        duration: float = 1.0,
        spread: float | None = None,
        samples: Any = None,
    ) -> list[Any]:
        """A benchmark's row; `spread` gives quartiles that far (relative) from each value, of 10 samples."""
        columns: dict[str, Any] = {
            "result": result,
            "params": params or [],
            "version": "1",
            "started_at": started_at,
            "duration": duration,
            "samples": samples,
        }
        if spread is not None:
            numbers = [value if isinstance(value, (int, float)) else None for value in result]
            columns["stats_q_25"] = [None if v is None else v * (1 - spread) for v in numbers]
            columns["stats_q_75"] = [None if v is None else v * (1 + spread) for v in numbers]
            columns["stats_number"] = [None if v is None else 1 for v in numbers]
            columns["stats_repeat"] = [None if v is None else 10 for v in numbers]
        row = [columns.get(name) for name in COLUMNS]
        while row and row[-1] is None:
            row.pop()
        return row

    def commit(
        self,
        number: int,
        rows: dict[str, list[Any]],
        *,
        machine: str = "box",
        folder: str | None = None,
        environment: str = "env-py3.11",
        commit: str | None = None,
    ) -> Path:
        """Writes the result file of the number-th commit, an hour apart; returns its path."""
        commit = commit or hash_of(number)
        place = self.folder / (folder or machine)
        place.mkdir(parents=True, exist_ok=True)
        details = {"arch": "x86_64", "cpu": "a CPU", "machine": machine, "num_cpu": "4", "version": 1}
        (place / "machine.json").write_text(json.dumps(details))
        data = {
            "commit_hash": commit,
            "env_name": environment,
            "date": START_MS + number * HOUR_MS,
            "params": {"machine": machine, "cpu": "a CPU", "python": "3.11"},
            "python": "3.11",
            "requirements": {},
            "env_vars": {},
            "result_columns": list(COLUMNS),
            "results": rows,
            "durations": {},
            "version": 2,
        }
        path = place / f"{commit[:8]}-{environment}.json"
        path.write_text(json.dumps(data))
        return path

    def context(self, path: Path, *records: dict[str, Any]) -> None:
        """Appends records to the context file of a result file."""
        with path.with_name(path.stem + ".context.jsonl").open("a") as file:
            file.writelines(json.dumps(record) + "\n" for record in records)

    def load(self, store: Store, *, project: str = "demo", repository: Path | None = None) -> ImportSummary:
        """Imports the folder and analyses it."""
        summary = import_results(store, open_folder(self.folder, project=project, repository=repository))
        analyse(store)
        return summary


def hash_of(number: int) -> str:
    """A full commit hash that starts with the number."""
    return f"{number:08x}" + "c" * 32

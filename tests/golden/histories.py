"""The histories of golden tests: a made one, and a part of our own H200 record that no new recorded run changes."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
import time_machine
from click.testing import CliRunner

from tests.dashboard.pages.recorded import write_recorded
from tests.once_per_run import once_per_run
from warpwatch.ci.cli import main

NOW = datetime(2026, 11, 23, 12, 0, tzinfo=UTC)
RECORDED = Path(__file__).parents[2] / "perf_suite/results"
COMMITS = ("c51b5565", "d0418de8", "0aec5df1", "787295a5", "ac852605")
BENCHMARKS = ("control", "flash_attention", "int4_linear", "layer_norm", "compiled_code")


def recorded_histories(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a git repository, its results, and a store with both histories: projects "kernels" and "h200"."""
    return once_per_run(tmp_path_factory, "golden", _record)


def database_in(folder: Path) -> str:
    """The URL of the store in that folder."""
    return f"sqlite:///{folder / 'history.db'}"


def _record(folder: Path) -> None:
    with time_machine.travel(NOW, tick=False):
        repository, results = write_recorded(folder)
    excerpt = write_h200_excerpt(folder / "h200")
    for arguments in (
        ["import", str(results), "--project", "kernels", "--repository", str(repository)],
        ["import", str(excerpt), "--project", "h200"],
    ):
        with time_machine.travel(NOW, tick=False):
            done = CliRunner().invoke(main, [*arguments, "--database", database_in(folder)])
        assert done.exit_code == 0, done.output


def write_h200_excerpt(folder: Path) -> Path:
    """Writes an asv results folder with the BENCHMARKS of the runs at COMMITS; returns the folder."""
    machine = folder / "nvidia-h200"
    machine.mkdir(parents=True)
    (machine / "machine.json").write_bytes((RECORDED / "nvidia-h200/machine.json").read_bytes())
    benchmarks = json.loads((RECORDED / "benchmarks.json").read_text())
    (folder / "benchmarks.json").write_text(json.dumps(_chosen(benchmarks)))
    for commit in COMMITS:
        (path,) = (RECORDED / "nvidia-h200").glob(f"{commit}-*.context.jsonl")
        records = [json.loads(line) for line in path.read_text().splitlines()]
        lines = [
            json.dumps(record) for record in records if "benchmark" not in record or _is_chosen(record["benchmark"])
        ]
        (machine / path.name).write_text("\n".join(lines) + "\n")
        result_path = path.with_name(path.name.replace(".context.jsonl", ".json"))
        result = json.loads(result_path.read_text())
        result["results"] = _chosen(result["results"])
        (machine / result_path.name).write_text(json.dumps(result))
    return folder


def _chosen(by_benchmark: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in by_benchmark.items() if "." not in name or _is_chosen(name)}


def _is_chosen(benchmark: str) -> bool:
    return benchmark.split(".")[1] in BENCHMARKS

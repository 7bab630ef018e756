"""Results as asv writes them, without a context: for pages of projects that are not ours."""

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path

from flask.testing import FlaskClient

from warpwatch.dashboard.analysis.series_analysis import analyse
from warpwatch.dashboard.importers.asv_folder import open_folder
from warpwatch.dashboard.importers.import_asv import import_results
from warpwatch.dashboard.settings import Settings
from warpwatch.dashboard.store import Store
from warpwatch.dashboard.web.app import create_app


def commit_hash(number: int) -> str:
    """Of the n-th commit."""
    return f"{number:08x}" + "0" * 32


def write_plain(
    folder: Path,
    values: Mapping[str, Sequence[float]],
    *,
    newest: datetime,
    every: timedelta = timedelta(days=1),
    machines: Mapping[str, Mapping[str, str]] | None = None,
    environments: Sequence[str] = ("py3.11",),
    started: timedelta = timedelta(minutes=5),
    value_of: Callable[[float, str, str], float] | None = None,
) -> Path:
    """Writes the values of benchmarks over commits, the same on each machine and in each environment unless `value_of`
    (value, machine, environment) says otherwise. Runs start `started` after the commit's date."""
    folder.mkdir(parents=True)
    listed = {
        name: {"name": name, "param_names": [], "params": [], "type": "time", "unit": "seconds", "version": "1"}
        for name in values
    }
    (folder / "benchmarks.json").write_text(json.dumps(listed))
    commits = max(map(len, values.values()))
    for machine, details in (machines or {"box": {}}).items():
        (folder / machine).mkdir()
        (folder / machine / "machine.json").write_text(json.dumps({"machine": machine, "version": 1, **details}))
        for environment in environments:
            for number in range(commits):
                at = newest - (commits - 1 - number) * every
                started_ms = int((at + started).timestamp() * 1000)
                results = {
                    name: [
                        [value_of(its[number], machine, environment) if value_of else its[number]],
                        [],
                        "1",
                        started_ms,
                        1.0,
                    ]
                    for name, its in values.items()
                }
                (folder / machine / f"{commit_hash(number)[:8]}-{environment}.json").write_text(
                    json.dumps(
                        {
                            "commit_hash": commit_hash(number),
                            "env_name": environment,
                            "date": int(at.timestamp() * 1000),
                            "params": {"machine": machine, **details},
                            "version": 2,
                            "results": results,
                            "result_columns": ["result", "params", "version", "started_at", "duration"],
                        }
                    )
                )
    return folder


def serve_plain(database: Path, projects: Mapping[str, Path]) -> FlaskClient:
    """A client of a dashboard with these results."""
    settings = Settings(database=f"sqlite:///{database}")
    store = Store(settings.database)
    for name, results in projects.items():
        import_results(store, open_folder(results, project=name))
    analyse(store)
    store.close()
    return create_app(settings).test_client()


def steps(*levels: tuple[int, float]) -> list[float]:
    """So many commits at each level, which scatter by a thousandth."""
    values = [level for commits, level in levels for _ in range(commits)]
    return [value * (1 + 0.001 * ((place * 7) % 5 - 2)) for place, value in enumerate(values)]

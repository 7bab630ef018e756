"""Time of the page of a very long series: on the server, and until Chromium has drawn it.

`python -m tools.long_series FOLDER` makes a store with one workload of two implementations over
10,000 commits (and keeps it for the next call), then asks for the page, its figure and its data, and draws the page.
The browser is the Chromium or Chrome on PATH, by playwright; `--no-browser` does without.
"""

import hashlib
import json
import shutil
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import numpy as np
import waitress
from flask.testing import FlaskClient

from warpwatch.dashboard.analysis.series_analysis import analyse
from warpwatch.dashboard.importers.asv_folder import open_folder
from warpwatch.dashboard.importers.import_asv import import_results
from warpwatch.dashboard.settings import Settings
from warpwatch.dashboard.store import Store, queries
from warpwatch.dashboard.web.app import create_app

_NAME = "suite.rope.Rope.track_latency"
_WORKLOAD = "cuda-fp16-b8-h32-s2048-d128"
_IMPLEMENTATIONS = ("warpwatch", "eager")
_START_MS = 1_500_000_000_000
_APART_MS = 6 * 3600 * 1000
_ASKED = 20
_DRAWN_MS = """() => performance.getEntriesByName('warpwatch:drawn')[0]
  ? performance.getEntriesByName('warpwatch:drawn')[0].startTime : null"""


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option("--commits", type=click.IntRange(20, 100_000), default=10_000, show_default=True)
@click.option("--browser/--no-browser", default=True)
def main(folder: Path, commits: int, browser: bool) -> None:
    """Make the store in FOLDER if there is none, and measure."""
    database = folder / f"long-{commits}.db"
    if not database.exists():
        _make(folder / f"results-{commits}", database, commits)
    settings = Settings(database=f"sqlite:///{database}")
    store = Store(settings.database)
    key = queries.find_series(store, "long", search="warpwatch").series[0].key
    store.close()
    app = create_app(settings)
    client = app.test_client()
    page = f"/long/series/{key}"
    middle = [_hash(commits // 2), _hash(commits // 2 + 300)]
    window = f"from={middle[0][:8]}&to={middle[1][:8]}"
    for path in (
        page,
        f"{page}/figure.json",
        f"{page}/figure.json?{window}",
        f"/api/projects/long/series/{key}/history?{window}",
        f"/api/projects/long/series/{key}/history",
        f"{page}/point",
    ):
        median, p95, cpu, size = _server_ms(client, path)
        click.echo(f"{median:6.1f} ms median, {p95:6.1f} ms p95, {cpu:6.1f} ms CPU, {size / 1e3:5.0f} kB  {path}")
    if browser:
        _draw(app, page)


def _make(results: Path, database: Path, commits: int) -> None:
    rng = np.random.default_rng(1)
    level = np.full(commits, 68e-6)
    for place in rng.integers(0, commits, 12):
        level[place:] *= 1 + rng.normal(0, 0.05)
    values = level * (1 + rng.normal(0, 0.004, commits)) * (1 + (rng.random(commits) < 0.003) * 0.2)
    machine = results / "machine"
    machine.mkdir(parents=True)
    (machine / "machine.json").write_text(json.dumps({"machine": "machine", "version": 1}))
    params = [[repr(_WORKLOAD)], [repr(name) for name in _IMPLEMENTATIONS]]
    listed = {
        "name": _NAME,
        "param_names": ["workload", "implementation"],
        "params": params,
        "type": "track",
        "unit": "seconds",
    }
    (results / "benchmarks.json").write_text(json.dumps({_NAME: {**listed, "version": "1"}, "version": 2}))
    for number, value in enumerate(values):
        _write(machine, number, float(value), params, failed=bool(rng.random() < 0.005))
    store = Store(f"sqlite:///{database}")
    import_results(store, open_folder(results, project="long"))
    analyse(store)
    store.close()


def _write(machine: Path, number: int, value: float, params: list[list[str]], *, failed: bool) -> None:
    commit, date = _hash(number), _START_MS + number * _APART_MS
    pair = [None if failed else value, value * 1.4]
    row = [pair, params, "1", date, 1.0, None, None, [v and v * 0.99 for v in pair], [v and v * 1.012 for v in pair]]
    columns = [
        "result",
        "params",
        "version",
        "started_at",
        "duration",
        "stats_ci_99_a",
        "stats_ci_99_b",
        "stats_q_25",
        "stats_q_75",
    ]
    result = {
        "commit_hash": commit,
        "env_name": "py3.11",
        "date": date,
        "params": {"machine": "machine"},
        "result_columns": columns,
        "results": {_NAME: row},
        "version": 2,
    }
    (machine / f"{commit[:8]}-py3.11.json").write_text(json.dumps(result))
    driver = "580.65.06" if number > 7000 else "550.54.15"
    run = hashlib.md5(commit.encode(), usedforsecurity=False).hexdigest()
    suite = _NAME.rpartition(".")[0]
    records: list[dict[str, Any]] = [
        {
            "record": "run",
            "schema": 1,
            "run": run,
            "commit": commit,
            "environment": "py3.11",
            "started_at": datetime.fromtimestamp(date / 1000, UTC).isoformat(),
            "device": "cuda",
            "gpu": {"name": "NVIDIA H200", "uuid": "GPU-5f1c", "driver": driver},
            "software": {"torch": "2.13.0" if number > 3000 else "2.12.0", "cuda": "13.0"},
        },
        {
            "record": "workload",
            "run": run,
            "benchmark": suite,
            "operator": "rope",
            "workload": _WORKLOAD,
            "parameters": {},
            "dtype": "fp16",
            "flops": 4e8,
            "bytes": 2.7e8,
            "kernels": ["warpwatch"],
            "baselines": ["eager"],
        },
        *(
            {
                "record": "measurement",
                "run": run,
                "benchmark": suite,
                "workload": _WORKLOAD,
                "implementation": name,
                "status": "ok" if latency_s else "invalid",
                "reason": None if latency_s else "throttled",
                "latency_s": latency_s,
                "sample_count": 20,
            }
            for name, latency_s in zip(_IMPLEMENTATIONS, pair, strict=True)
        ),
    ]
    lines = "".join(json.dumps(record) + "\n" for record in records)
    (machine / f"{commit[:8]}-py3.11.context.jsonl").write_text(lines)


def _hash(number: int) -> str:
    return hashlib.sha1(str(number).encode(), usedforsecurity=False).hexdigest()


def _server_ms(client: FlaskClient, path: str) -> tuple[float, float, float, int]:
    taken, spent, size = [], [], 0
    for _ in range(_ASKED + 1):
        start, cpu_start = time.perf_counter(), time.process_time()
        answer = client.get(path)
        taken.append(1000 * (time.perf_counter() - start))
        spent.append(1000 * (time.process_time() - cpu_start))
        assert answer.status_code == 200, path
        size = len(answer.data)
    warm = np.array(taken[1:])  # the first call reads the order of the commits
    return float(np.median(warm)), float(np.quantile(warm, 0.95)), float(np.median(spent[1:])), size


def _draw(app: Any, page: str) -> None:
    from playwright.sync_api import sync_playwright  # only tests require it

    server = waitress.create_server(app, host="127.0.0.1", port=0, threads=4)
    threading.Thread(target=server.run, daemon=True).start()
    with sync_playwright() as playwright:
        program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
        if program is None:
            raise click.ClickException("no chromium, chromium-browser or google-chrome on PATH; give --no-browser")
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": 1440, "height": 900})
        tab.goto(f"http://127.0.0.1:{server.effective_port}{page}")  # plotly comes into the cache
        tab.wait_for_selector(".ww-plot[data-drawn]")
        for _ in range(3):
            tab.reload(wait_until="commit")
            tab.wait_for_selector(".ww-plot[data-drawn]")
            click.echo(f"{_of_page(tab.evaluate)} in Chromium")
        browser.close()
    server.close()


def _of_page(evaluate: Callable[[str], Any]) -> str:
    drawn = evaluate(_DRAWN_MS)
    figure = evaluate("performance.getEntriesByName('warpwatch:draw')[0]?.duration ?? null")
    points = evaluate("document.querySelectorAll('.ww-plot .point').length")
    return f"drawn {drawn:.0f} ms after the visit began, of which the figure {figure:.0f} ms, {points} points,"


if __name__ == "__main__":
    main()

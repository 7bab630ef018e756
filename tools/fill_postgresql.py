"""Fills a PostgreSQL database with 50 million points by COPY, and times series queries on it.

`python -m tools.fill_postgresql URL` makes 50,000 series over 1,000 commits on 25 machines, as
years of imports leave them: four long stretches each, and the newest twenty points one by one. Then it asks
`queries.own_history`, all points of a series, and `queries.shown_history`, what its page asks, for random series.
"""

import itertools
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import click
import numpy as np
import psycopg
from sqlalchemy import func, insert, select, text

from warpwatch.dashboard.model.history import ShownHistory
from warpwatch.dashboard.statistics.detection import ANALYSIS_VERSION
from warpwatch.dashboard.store import Store, queries, schema
from warpwatch.dashboard.store.chunks import Columns, encode
from warpwatch.dashboard.store.points import batches
from warpwatch.dashboard.store.queries.series import OwnHistory

_MACHINES = 25
_COMMITS = 1000
_ONE_BY_ONE = 20  # newest points
_STRETCHES = 4
_START_MS = 1_600_000_000_000
_COMMIT_MS = 5 * 3600 * 1000
_AT_ONCE = 500  # series


@click.command()
@click.argument("url")
@click.option("--points", type=int, default=50_000_000, show_default=True)
@click.option("--asked", type=int, default=300, show_default=True, help="Series to query.")
@click.option("--seed", type=int, default=1, show_default=True)
def main(url: str, points: int, asked: int, seed: int) -> None:
    """Fill the database at URL and time queries; only time them if it already has the project `big`."""
    store = Store(url)
    if not any(project.name == "big" for project in queries.projects(store)):
        begun = time.monotonic()
        _fill(store, points // _COMMITS, np.random.default_rng(seed))
        click.echo(f"filled in {time.monotonic() - begun:.0f} s")
    _time(store, asked, np.random.default_rng(seed + 1))


def _fill(store: Store, count: int, rng: np.random.Generator) -> None:
    with store.write("big") as connection:
        project = connection.execute(
            insert(schema.project).values(name="big", analysis_version=ANALYSIS_VERSION).returning(schema.project.c.id)
        ).scalar_one()
        owned = {"project_id": project}
        connection.execute(
            insert(schema.machine), [{**owned, "name": f"box-{n}", "details": {}} for n in range(_MACHINES)]
        )
        connection.execute(insert(schema.environment), [{**owned, "name": "py3.13"}])
        commits = [
            {
                **owned,
                "hash": f"{n:040x}",
                "date_ms": _START_MS + n * _COMMIT_MS,
                "position": n,
                "subject": f"change {n}",
                "author": "Ada",
                "parents": f"{n - 1:040x}" if n else "",
            }
            for n in range(_COMMITS)
        ]
        connection.execute(insert(schema.commit), commits)
        per_machine = count // _MACHINES
        benchmarks = [{**owned, "name": f"suite_{n % 31}.Bench{n}.time_it"} for n in range(per_machine)]
        connection.execute(insert(schema.benchmark), benchmarks)
        ids = {}
        for table in (schema.machine, schema.environment, schema.commit, schema.benchmark):
            query = select(table.c.id).where(table.c.project_id == project).order_by(table.c.id)
            ids[table.name] = list(connection.execute(query).scalars())
        runs = [
            {
                **owned,
                "machine_id": machine,
                "environment_id": ids["environment"][0],
                "commit_id": commit,
                "name": f"asv-{machine}-{commit}",
                "started_ms": _START_MS + n * _COMMIT_MS + 60_000,
            }
            for machine in ids["machine"]
            for n, commit in enumerate(ids["commit"])
        ]
        connection.execute(insert(schema.run), runs)
        series = [
            {
                **owned,
                "benchmark_id": benchmark,
                "machine_id": machine,
                "environment_id": ids["environment"][0],
                "key": f"{machine:06x}{benchmark:010x}",
                "parameters": [],
                "metric": "time",
                "unit": "seconds",
                "stale": False,
            }
            for machine, benchmark in itertools.product(ids["machine"], ids["benchmark"])
        ]
        for some in batches(series, 5000):
            connection.execute(insert(schema.series), some)
    _copy(store, project, ids["commit"], rng)


def _copy(store: Store, project: int, commits: list[int], rng: np.random.Generator) -> None:
    """Chunks in the order in which imports would have written them: the oldest of all series first."""
    series, run = schema.series, schema.run
    with store.read() as connection:
        owned = connection.execute(
            select(series.c.id, series.c.machine_id).where(series.c.project_id == project).order_by(series.c.id)
        ).all()
        rows = connection.execute(
            select(run.c.machine_id, run.c.id).where(run.c.project_id == project).order_by(run.c.id)
        )
        runs: dict[int, list[int]] = {}
        for machine, number in rows:
            runs.setdefault(machine, []).append(number)
    levels = np.exp(rng.uniform(np.log(2e-6), np.log(0.2), len(owned)))
    long = _COMMITS - _ONE_BY_ONE
    edges = [*(n * long // _STRETCHES for n in range(_STRETCHES)), *range(long, _COMMITS + 1)]
    url = store.url.set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(url) as connection:
        for start, end in itertools.pairwise(edges):
            for places in batches(range(len(owned)), _AT_ONCE):
                stretches = (
                    (owned[n].id, _stretch(commits[start:end], runs[owned[n].machine_id][start:end], levels[n], rng))
                    for n in places
                )
                _copy_stretches(connection, stretches)
            connection.commit()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")


def _copy_stretches(connection: "psycopg.Connection[Any]", stretches: Iterable[tuple[int, Columns]]) -> None:
    copy = "COPY chunk (series_id, points, first_run, last_run, data) FROM STDIN"
    with connection.cursor() as cursor, cursor.copy(copy) as to:
        for number, points in stretches:
            to.write_row((number, len(points), int(points.run[0]), int(points.run[-1]), encode(points)))


def _stretch(commits: list[int], runs: list[int], level: float, rng: np.random.Generator) -> Columns:
    count = len(commits)
    value = level * np.exp(rng.normal(0, 0.01, count))
    rounded = [np.array([float(f"{x:.5g}") for x in value * factor]) for factor in (0.993, 1.007)]
    none = np.zeros(count, dtype=np.int64)
    return Columns(
        commit=np.array(commits),
        run=np.array(runs),
        value=value,
        q25=rounded[0],
        q75=rounded[1],
        count=none + 10,
        status=none,
        reason=none,
    )


def _time(store: Store, asked: int, rng: np.random.Generator) -> None:
    with store.read() as connection:
        points = connection.execute(select(func.sum(schema.chunk.c.points))).scalar_one()
        size = connection.execute(text("SELECT pg_database_size(current_database())")).scalar_one()
        keys = connection.execute(select(schema.series.c.key).order_by(schema.series.c.id)).scalars().all()
    click.echo(f"{points} points in {len(keys)} series, {size / 1e9:.2f} GB, {size / points:.1f} bytes a point")
    _ask("own_history", asked, _drawn(keys, rng), lambda key: queries.own_history(store, key))
    _ask(
        "shown_history",
        asked,
        _drawn(keys, rng),
        lambda key: queries.shown_history(store, key, queries.HistoryRequest()),
    )


def _drawn(keys: Sequence[str], rng: np.random.Generator) -> list[str]:
    return [keys[place] for place in rng.permutation(len(keys))]


def _ask(name: str, asked: int, keys: Sequence[str], query: Callable[[str], OwnHistory | ShownHistory | None]) -> None:
    """Time the queries, after twenty to warm up."""
    wall, cpu = [], []
    for key in keys[: asked + 20]:
        begun, worked = time.perf_counter(), time.process_time()
        history = query(key)
        wall.append((time.perf_counter() - begun) * 1000)
        cpu.append((time.process_time() - worked) * 1000)
        assert history is not None
    for what, took in (("wall", wall[20:]), ("CPU in Python", cpu[20:])):
        click.echo(
            f"queries.{name} of {_COMMITS} points, {what}, ms: median {statistics.median(took):.1f}, "
            f"95 % below {statistics.quantiles(took, n=20)[-1]:.1f}, at most {max(took):.1f}"
        )


if __name__ == "__main__":
    main()

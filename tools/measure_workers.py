"""Speed-up of the analysis with two workers: `python -m tools.measure_workers DATABASE`.

The series of a store are marked stale and analysed again by one and by two in turn: processes of this machine and,
with `--dask`, workers of a Dask cluster that is started here: a scheduler and workers, each a process of its own, as
on any other cluster. On a shared machine the quickest of several rounds is the fairest; the time this process takes by
itself bounds what more of them could bring.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

import click
from sqlalchemy import select

from warpwatch.dashboard.analysis.series_analysis import analyse
from warpwatch.dashboard.executors import cluster, isolated_worker, local_workers
from warpwatch.dashboard.store import Store, schema
from warpwatch.dashboard.store.point_buffer import mark_stale

_PATIENCE_S = 60.0


@click.command()
@click.argument("database")
@click.option("--series", type=int, default=1000, show_default=True)
@click.option("--rounds", type=int, default=3, show_default=True)
@click.option("--dask", is_flag=True, help="Workers of a Dask cluster too.")
def main(database: str, series: int, rounds: int, dask: bool) -> None:
    """Analyse the first series of DATABASE repeatedly; their findings do not change."""
    store = Store(database)
    best: dict[tuple[str, int], float] = {}
    for _ in range(rounds):
        for kind in ("processes", "Dask workers") if dask else ("processes",):
            for count in (1, 2):
                with _workers(kind, count) as workers:
                    done, took, own = _again(store, series, workers)
                best[kind, count] = min(took, best.get((kind, count), took))
                click.echo(f"{count} {kind}: {done} series in {took:.2f} s, {own:.2f} s of CPU in this process")
    for kind in dict.fromkeys(kind for kind, _ in best):
        click.echo(f"two {kind} are {best[kind, 1] / best[kind, 2]:.2f} times as fast as one")


def _again(store: Store, series: int, workers: tuple[Executor, int]) -> tuple[int, float, float]:
    with store.write("measure") as connection:
        ids = connection.execute(select(schema.series.c.id).order_by(schema.series.c.id).limit(series)).scalars()
        mark_stale(connection, list(ids))
    begun, before = time.monotonic(), time.process_time()
    done = analyse(store, workers=workers)
    return done, time.monotonic() - begun, time.process_time() - before


def _workers(kind: str, count: int) -> AbstractContextManager[tuple[Executor, int]]:
    if kind == "Dask workers":
        return _dask_workers(count)
    return isolated_worker() if count == 1 else local_workers(count)


@contextmanager
def _dask_workers(count: int) -> Iterator[tuple[Executor, int]]:
    """A scheduler and its workers, started by Dask's commands and stopped afterwards."""
    from distributed import Client

    with tempfile.TemporaryDirectory() as folder, ExitStack() as started:
        known_at = Path(folder) / "scheduler.json"
        for arguments in (
            ["dask_scheduler", "--host", "127.0.0.1", "--port", "0"],
            *[["dask_worker", "--nthreads", "1", "--name", f"worker-{n}"] for n in range(count)],
        ):
            name, *rest = arguments
            command = [sys.executable, "-m", f"distributed.cli.{name}", *rest, "--no-dashboard"]
            process = subprocess.Popen(
                [*command, "--scheduler-file", str(known_at)], cwd=folder, stderr=subprocess.DEVNULL
            )
            started.callback(process.wait)
            started.callback(process.terminate)
            deadline = time.monotonic() + _PATIENCE_S
            while not known_at.exists() and time.monotonic() < deadline:
                time.sleep(0.1)
        address = json.loads(known_at.read_text())["address"]
        with Client(address, timeout=_PATIENCE_S) as client:
            client.wait_for_workers(count, timeout=_PATIENCE_S)
        with cluster(address) as workers:
            yield workers


if __name__ == "__main__":
    main()

"""Kills imports at random moments and compares what the next ones make of it with an import that nobody disturbed.

`python -m warpwatch.dashboard.trials.import_faults FOLDER --kills 200` takes asv results (`make_history --scale 0.09`
writes some). An import starts on an empty store, is killed (SIGKILL), is started again on what is left, and so on until
one ends by itself; then every commit, run, series, point, sample, mark, changepoint and summary must be what an import
from nothing leaves. Every other kill strikes the process alone, and not those that it started. With `--server URL` the
stores are databases made and dropped on a PostgreSQL server.
"""

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import click
from sqlalchemy import create_engine, make_url, text

from warpwatch.dashboard.store import Store
from warpwatch.dashboard.trials.store_state import State, state_of

# `warpwatch import`, but with the processes and the many transactions that a folder a hundred times as large has.
_IMPORT = """
from warpwatch.ci.main import main
from warpwatch.dashboard.importers import import_results
import_results._AT_ONCE, import_results._WORTH_PROCESSES = 200_000, 1
main()
"""
_COMMAND = [sys.executable, "-c", _IMPORT, "import"]
_STUCK_S = 300
_NewStore = Callable[[], str]


@dataclass(slots=True, kw_only=True)
class _Counts:
    """What became of the imports so far."""

    kills: int = 0
    mid_import: int = 0  # kills that left some of the files in, and not all
    mid_analysis: int = 0  # that left all files in, and something to analyse
    chains: int = 0  # of imports on one store, each ended whole
    differing: list[str] = field(default_factory=list)


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--kills", type=click.IntRange(min=1), default=200, show_default=True)
@click.option("--seed", type=int, default=1, show_default=True)
@click.option("--server", metavar="URL", help="Of any database on a PostgreSQL server; SQLite without it.")
def main(folder: Path, kills: int, seed: int, server: str | None) -> None:
    """Kill so many imports of FOLDER. Exits with 1 if anything was lost, doubled or said wrongly."""
    moments = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="faults-") as where, _stores(server, Path(where)) as new_store:
        whole, takes = _undisturbed(folder, new_store())
        click.echo(f"an import that nobody disturbs takes {takes:.1f} s: {_sizes(whole)}")
        counts = _Counts()
        while counts.kills < kills:
            _chain(folder, new_store(), whole, takes, moments, counts, kills)
    click.echo(
        f"{counts.kills} kills ({counts.mid_import} with some of the files in, {counts.mid_analysis} during the"
        f" analysis), {counts.chains} stores made whole afterwards, {len(counts.differing)} of them differ"
    )
    for line in counts.differing:
        click.echo(line)
    sys.exit(1 if counts.differing else 0)


def _undisturbed(folder: Path, url: str) -> tuple[State, float]:
    begun = time.monotonic()
    process = _start(folder, url)
    said = process.communicate(timeout=_STUCK_S)[0]
    if process.returncode:
        raise click.ClickException(said)
    return _state(url), time.monotonic() - begun


def _chain(
    folder: Path, url: str, whole: State, takes: float, moments: random.Random, counts: _Counts, kills: int
) -> None:
    """Imports into one store: all but the last are killed."""
    while True:
        process = _start(folder, url)
        try:
            process.wait(timeout=moments.uniform(0.0, takes) if counts.kills < kills else _STUCK_S)
        except subprocess.TimeoutExpired:
            _kill(process, alone=counts.kills % 2 == 1)
            counts.kills += 1
            left = _state(url)
            unread = len(whole["files"]) - len(left["files"])
            counts.mid_import += 0 < unread < len(whole["files"])
            counts.mid_analysis += not unread and any(stale for *_, stale in left["series"])
            continue
        said = process.communicate()[0]
        counts.chains += 1
        state = _state(url)
        wrong = [kind for kind in whole if state[kind] != whole[kind]]
        if wrong or process.returncode:
            counts.differing.append(f"store {counts.chains}, {', '.join(wrong)}: {_sizes(state)}; it said: {said}")
        return


def _start(folder: Path, url: str) -> "subprocess.Popen[str]":
    command = [*_COMMAND, str(folder), "--project", "faults", "--database", url]
    # In a session of its own, so that a kill can strike all of it.
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )


def _kill(process: "subprocess.Popen[str]", *, alone: bool) -> None:
    if alone:
        process.kill()
    else:
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=_STUCK_S)  # returns when those that it started have ended too: they share its output


def _state(url: str) -> State:
    store = Store(url)
    try:
        return state_of(store)
    finally:
        store.close()


def _sizes(state: State) -> str:
    return ", ".join(f"{len(rows)} {kind}" for kind, rows in state.items())


@contextmanager
def _stores(server: str | None, folder: Path) -> Iterator[_NewStore]:
    """Makes empty stores, whose databases end with it."""
    if server is None:
        numbers = iter(range(1_000_000))
        yield lambda: f"sqlite:///{folder}/{next(numbers)}.db"
        return
    address = make_url(server).set(drivername="postgresql+psycopg")
    engine = create_engine(address, isolation_level="AUTOCOMMIT")
    made: list[str] = []

    def new_store() -> str:
        made.append(f"faults_{os.getpid()}_{len(made)}")
        with engine.connect() as connection:
            connection.execute(text(f"CREATE DATABASE {made[-1]}"))
        return address.set(database=made[-1]).render_as_string(hide_password=False)

    try:
        yield new_store
    finally:
        with engine.connect() as connection:
            for name in made:
                connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
        engine.dispose()


if __name__ == "__main__":
    main()

"""Kill imports at random moments, and compare the result of the next ones with an undisturbed import.

`python -m tools.import_faults FOLDER --kills 200` takes asv results (`make_history --scale 0.06`
writes some). An import starts on an empty store, is killed (SIGKILL), is started again on what is left, and so on until
one ends by itself; then every commit, run, series, point, sample, mark, changepoint and summary must be what an import
from nothing leaves. Every other kill strikes the process alone, and not those that it started. With `--server URL` the
stores are databases made and dropped on a PostgreSQL server.
"""

import multiprocessing
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path

import click
from sqlalchemy import create_engine, make_url, text

from tools.killing import kill_import
from tools.store_state import State, state_of
from warpwatch.dashboard.analysis import series_analysis
from warpwatch.dashboard.cli.import_ import import_
from warpwatch.dashboard.importers import import_asv
from warpwatch.dashboard.store import Store

_STUCK_S = 300
_NewStore = Callable[[], str]


@dataclass(slots=True, kw_only=True)
class _Counts:
    """Counts of the imports so far."""

    kills: int = 0
    mid_import: int = 0  # kills after some of the files
    mid_analysis: int = 0  # kills after all files, with series left to analyse
    chains: int = 0  # of imports into one store
    differing: list[str] = field(default_factory=list)


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--kills", type=click.IntRange(min=1), default=200, show_default=True)
@click.option("--seed", type=int, default=1, show_default=True)
@click.option("--server", metavar="URL", help="Of any database on a PostgreSQL server; SQLite without it.")
def main(folder: Path, kills: int, seed: int, server: str | None) -> None:
    """Kill imports of FOLDER; exit with 1 if anything was lost, duplicated or reported wrongly."""
    moments = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="faults-") as where, _stores(server, Path(where)) as new_store:
        whole, takes = _undisturbed(folder, new_store())
        click.echo(f"an undisturbed import takes {takes:.1f} s: {_sizes(whole)}")
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
    process.join(_STUCK_S)
    takes = time.monotonic() - begun
    if process.exitcode:
        raise click.ClickException(f"an undisturbed import ended with {process.exitcode}")
    return _state(url), takes


def _chain(
    folder: Path, url: str, whole: State, takes: float, moments: random.Random, counts: _Counts, kills: int
) -> None:
    """Import into one store; all imports but the last are killed."""
    while True:
        process = _start(folder, url)
        process.join(moments.uniform(0.0, takes) if counts.kills < kills else _STUCK_S)
        if process.exitcode is not None:
            break
        kill_import(process, alone=counts.kills % 2 == 1)
        counts.kills += 1
        left = _state(url)
        unread = len(whole["files"]) - len(left["files"])
        counts.mid_import += 0 < unread < len(whole["files"])
        counts.mid_analysis += not unread and any(stale for *_, stale in left["series"])
    counts.chains += 1
    state = _state(url)
    wrong = [kind for kind in whole if state[kind] != whole[kind]]
    if wrong or process.exitcode:
        counts.differing.append(f"store {counts.chains}: {', '.join(wrong)}; exit status {process.exitcode}")


def _start(folder: Path, url: str) -> BaseProcess:
    """An import in a fork of this process, to save the start of Python."""
    process = multiprocessing.get_context("fork").Process(target=_import, args=(folder, url))
    process.start()
    return process


def _import(folder: Path, url: str) -> None:
    """`warpwatch import` with as many transactions and processes as of a much larger folder."""
    os.setpgid(0, 0)  # so that a kill includes its children
    import_asv._AT_ONCE, import_asv._WORTH_PROCESSES, series_analysis._WORTH_PROCESSES = 50_000, 1, 1
    with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere):
        import_(args=[str(folder), "--project", "faults", "--database", url])


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
    """Create empty stores; their databases are removed at the end."""
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

"""`python -m tools.push_faults FOLDER`: kill pushers and dashboard at random while results arrive.

Some results are new commits and some re-runs that asv writes over the file of an earlier run. Then the store must hold
what one holds into which each version was imported undisturbed: nothing lost, nothing twice.
"""

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import click
import requests

from tools.store_state import State, state_of
from warpwatch.dashboard.analysis.series_analysis import analyse
from warpwatch.dashboard.importers.asv_folder import open_folder
from warpwatch.dashboard.importers.import_asv import import_results
from warpwatch.dashboard.store import Store
from warpwatch.dashboard.store.tokens import create_token

_PROJECT = "trial"
_BENCHMARK = "suite.Bench.track_latency"
_PARAMETERS = [str(number) for number in range(12)]
_COMMAND = [sys.executable, "-m", "warpwatch.ci.cli"]
_START_S = 300  # of a server, on a machine with much other work
_USUAL_START_S = 0.5  # of a command


@dataclass(slots=True, kw_only=True)
class Counts:
    """Counts of a trial, and its result."""

    pushers_killed: int = 0
    servers_killed: int = 0
    pushes: int = 0
    differs: tuple[str, ...] = ()  # kinds of rows in which the stores differ


def trial(folder: Path, database: str, *, rounds: int, seed: int) -> Counts:
    """Push in several rounds; in each, kill the pusher until one ends by itself."""
    rng, counts = random.Random(seed), Counts()
    results, reference = folder / "results", Store(f"sqlite:///{folder / 'reference.db'}")
    store, pace = Store(database), _pace()
    environment = {
        **os.environ,
        "WARPWATCH_TOKEN": create_token(store, _PROJECT, name="runner", now_ms=1),
        "WARPWATCH_SPOOL": str(folder / "spool"),
        "WARPWATCH_DATABASE": database,
    }
    with _Server(environment) as server:
        words = [*_COMMAND, "push", str(results), "--to", server.url, "--project", _PROJECT, "--patience"]
        for number in range(rounds):
            _measure(results, number, rng)
            import_results(reference, open_folder(results, project=_PROJECT), workers=1)
            while True:
                pusher = subprocess.Popen(
                    [*words, "1"], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
                )
                counts.pushes += 1
                if rng.random() < 0.4:
                    time.sleep(rng.uniform(0, 1.5 * pace))
                    server.kill()
                    counts.servers_killed += 1
                try:
                    pusher.wait(timeout=rng.uniform(0, 2.0 * pace))
                except subprocess.TimeoutExpired:
                    pusher.send_signal(signal.SIGKILL)
                    pusher.wait()
                    counts.pushers_killed += 1
                server.start()
                if pusher.returncode in (0, 1):  # everything is queued or sent
                    break
        subprocess.run([*words, "120"], env=environment, check=True, stdout=subprocess.DEVNULL)
    analyse(reference)
    expected, actual = _facts(reference), _facts(store)
    counts.differs = tuple(kind for kind in expected if expected[kind] != actual[kind])
    for one in (reference, store):
        one.close()
    return counts


def _pace() -> float:
    """Duration of a command relative to the usual: on a slow machine, kills must come later."""
    began = time.monotonic()
    subprocess.run([*_COMMAND, "push", "--help"], check=True, stdout=subprocess.DEVNULL)
    return max((time.monotonic() - began) / _USUAL_START_S, 1.0)


class _Server:
    """`warpwatch serve` on its own port, which can be killed and restarted."""

    def __init__(self, environment: dict[str, str]) -> None:
        self._environment, self._process, self._port = environment, None, _port_of_no_connection()
        self.url = f"http://127.0.0.1:{self._port}"

    def __enter__(self) -> "_Server":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    _process: subprocess.Popen[bytes] | None

    def start(self) -> None:
        """Wait until it answers."""
        if self._process is None:
            self._process = subprocess.Popen(
                [*_COMMAND, "serve", "--port", str(self._port)],
                env=self._environment,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        deadline = time.monotonic() + _START_S
        while True:
            try:
                requests.get(f"{self.url}/healthz", timeout=5).raise_for_status()
                return
            except requests.RequestException:
                if time.monotonic() > deadline or self._process.poll() is not None:
                    raise
                time.sleep(0.1)

    def kill(self) -> None:
        """Kill at once."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def _port_of_no_connection() -> int:
    """A free port below the ephemeral range, so that no outgoing connection gets it while the server is down."""
    while True:
        number = random.randrange(20_000, 30_000)
        with suppress(OSError), socket.create_server(("127.0.0.1", number)):
            return number


def _measure(results: Path, number: int, rng: random.Random) -> None:
    """Four new commits, and further runs of earlier ones, as asv writes them."""
    place = results / "box"
    place.mkdir(parents=True, exist_ok=True)
    listed = {
        "name": _BENCHMARK,
        "unit": "seconds",
        "type": "track",
        "version": "1",
        "param_names": ["size"],
        "params": [_PARAMETERS],
    }
    (results / "benchmarks.json").write_text(json.dumps({_BENCHMARK: listed, "version": 2}))
    (place / "machine.json").write_text(json.dumps({"machine": "box", "version": 1}))
    new = [4 * number + offset for offset in range(4)]
    for commit in [*new, *rng.sample(range(4 * number), min(2, 4 * number))]:
        hash_ = f"{commit:08x}" + "d" * 32
        values = [1e-5 * (1 + index) * (1 + rng.gauss(0, 0.01)) for index in range(len(_PARAMETERS))]
        row = [values, [_PARAMETERS], "1", 1_750_000_000_000 + 1_000_000 * number + commit]
        path = place / f"{hash_[:8]}-env.json"
        path.write_text(
            json.dumps(
                {
                    "commit_hash": hash_,
                    "env_name": "env",
                    "date": 1_750_000_000_000 + commit * 3_600_000,
                    "params": {"machine": "box"},
                    "result_columns": ["result", "params", "version", "started_at"],
                    "results": {_BENCHMARK: row},
                    "version": 2,
                }
            )
        )


def _facts(store: Store) -> State:
    """The state without the facts of the import itself."""
    return {
        kind: rows
        for kind, rows in state_of(store).items()
        if kind in {"commits", "series", "points", "samples", "changes", "summaries"}
    }


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option("--database", help="Of the dashboard; default: a SQLite file in FOLDER.")
@click.option("--rounds", default=20, show_default=True, type=click.IntRange(1))
@click.option("--seed", default=1, show_default=True)
def main(folder: Path, database: str | None, rounds: int, seed: int) -> None:
    """Push into a dashboard with an empty store; FOLDER must be new or empty."""
    folder.mkdir(parents=True, exist_ok=True)
    counts = trial(folder, database or f"sqlite:///{folder / 'history.db'}", rounds=rounds, seed=seed)
    click.echo(
        f"{rounds} rounds, {counts.pushes} pushes, {counts.pushers_killed} pushers and {counts.servers_killed} servers "
        f"killed; {'nothing lost, nothing twice' if not counts.differs else f'differs in {counts.differs}'}"
    )
    sys.exit(bool(counts.differs))


if __name__ == "__main__":
    main()

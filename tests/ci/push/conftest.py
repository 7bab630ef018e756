"""A dashboard at an address, on both kinds of database, and a runner that pushes to it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.asv_results import AsvResults
from tests.dashboard.pages.browsing import serving
from tests.stored import stored_history
from warpwatch.ci.push.push_command import push
from warpwatch.dashboard.settings import Settings
from warpwatch.dashboard.store import Store, queries
from warpwatch.dashboard.store.tokens import create_token

BENCH = "suite.Bench.track_latency"


@dataclass
class Runner:
    """Results on one machine, and where they go."""

    url: str
    store: Store
    token: str
    asv: AsvResults

    @property
    def spool(self) -> Path:
        return self.asv.folder.parent / "spool"

    def measure(self, number: int, value: float, *, run: int = 1) -> Path:
        """What asv leaves of a run of the number-th commit; a further run is written over the one before."""
        self.asv.benchmark(BENCH)
        return self.asv.commit(number, {BENCH: self.asv.row([value], started_at=1000 * run + number)})

    def push(self, *words: str, token: str | None = None, to: str | None = None, spool: Path | None = None) -> Result:
        environment = {
            "WARPWATCH_TOKEN": self.token if token is None else token,
            "WARPWATCH_SPOOL": str(spool or self.spool),
        }
        where = [str(self.asv.folder), "--to", to or self.url, "--project", "demo", "--patience", "0"]
        return CliRunner(env=environment).invoke(push, [*where, *words])

    def kept(self, place: str) -> list[Path]:
        return sorted(self.spool.glob(f"*/{place}/*.tar.zst"))

    def arrived(self) -> list[float]:
        """Every value that the store holds, a commit after the other."""
        (series,) = queries.find_series(self.store, "demo").series
        history = stored_history(self.store, series.key)
        assert history is not None
        return [point.value for point in history.points if point.value is not None]


@contextmanager
def _runner(url: str, folder: Path) -> Iterator[Runner]:
    store = Store(url)
    token = create_token(store, "demo", name="runner", now_ms=1)
    with serving(Settings(database=url, upload_limit_mib=1)) as address:
        yield Runner(url=address, store=store, token=token, asv=AsvResults(folder / "results"))
    store.close()


@pytest.fixture
def any_runner(database: str, tmp_path: Path) -> Iterator[Runner]:
    """One whose dashboard is on either kind of database."""
    with _runner(database, tmp_path) as runner:
        yield runner


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[Runner]:
    """One whose dashboard is on SQLite, for what does not depend on the database."""
    with _runner(f"sqlite:///{tmp_path / 'history.db'}", tmp_path) as made:
        yield made

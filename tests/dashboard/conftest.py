"""Databases to test on, a real PostgreSQL among them, and a builder of asv results folders."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.asv_results import AsvResults, hash_of
from warpwatch.dashboard.store import Store


@pytest.fixture
def store(database: str) -> Iterator[Store]:
    """An empty store, on both kinds of database."""
    opened = Store(database)
    yield opened
    opened.close()


@pytest.fixture
def sqlite_store(tmp_path: Path) -> Iterator[Store]:
    """An empty store on SQLite, for what does not depend on the database."""
    opened = Store(str(tmp_path / "history.db"))
    yield opened
    opened.close()


@pytest.fixture
def commit_hash() -> Callable[[int], str]:
    """The hash that `AsvResults.commit` gives the number-th commit."""
    return hash_of


@pytest.fixture
def asv(tmp_path: Path) -> AsvResults:
    """An empty results folder."""
    return AsvResults(tmp_path / "results")


@pytest.fixture
def timed_history(asv: AsvResults) -> Callable[..., AsvResults]:
    """Writes one parameterless benchmark over commits: values in seconds, a commit each."""

    def write(values: list[float], *, name: str = "suite.Bench.track_latency", first: int = 0) -> AsvResults:
        asv.benchmark(name)
        for number, value in enumerate(values, start=first):
            asv.commit(number, {name: asv.row([value], started_at=number + 1, spread=0.002)})
        return asv

    return write

"""Imports that put commits in order while an analysis is at work, and other projects' that come between."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import func, insert, select

from tests.asv_results import AsvResults
from warpwatch.dashboard.analysis import series_analysis
from warpwatch.dashboard.analysis.series_analysis import analyse
from warpwatch.dashboard.executors import InThread
from warpwatch.dashboard.importers import import_asv as importing
from warpwatch.dashboard.importers.asv_folder import open_folder
from warpwatch.dashboard.importers.import_asv import import_results
from warpwatch.dashboard.model.series import UNORDERED_POSITION
from warpwatch.dashboard.store import Store, schema
from warpwatch.dashboard.store.commits import order_commits
from warpwatch.dashboard.store.queries.series_lines import project_order

BATCHES = 3
FEWEST = 5  # series of a batch
SERIES = BATCHES * FEWEST
COMMITS = 3


def _write(asv: AsvResults, numbers: Any) -> None:
    names = [f"suite.Bench.track_{n:03}" for n in range(SERIES)]
    for name in names:
        asv.listed[name] = {"name": name, "unit": "seconds", "type": "track", "param_names": [], "params": []}
    for number in numbers:
        asv.commit(number, {name: asv.row([1.0], started_at=number + 1) for name in names})


@pytest.fixture
def unordered(store: Store, asv: AsvResults, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """A store into which another import has written an older commit, and not yet put it in order; does so."""
    monkeypatch.setattr(series_analysis, "_FEWEST", FEWEST)
    _write(asv, range(1, COMMITS + 1))
    asv.load(store)
    _write(asv, [0])
    with monkeypatch.context() as patch:
        patch.setattr(importing, "put_in_order", lambda store, writer, **_: ())
        import_results(store, open_folder(asv.folder, project="demo"))

    with store.read() as connection:
        project = connection.execute(select(schema.project.c.id)).scalar_one()

    def order() -> None:
        order_commits(store, "demo", project, ())

    return order


def _newest(store: Store) -> dict[str, int]:
    """How many series have which commit as their newest."""
    commit, summary = schema.commit, schema.summary
    query = (
        select(commit.c.hash, func.count()).join(summary, summary.c.commit_id == commit.c.id).group_by(commit.c.hash)
    )
    with store.read() as connection:
        assert not any(connection.execute(select(schema.series.c.stale)).scalars())
        return {row[0]: row[1] for row in connection.execute(query.group_by(commit.c.hash))}


@pytest.mark.parametrize("batch", range(BATCHES))
def test_commits_that_are_put_in_order_during_the_analysis_are_seen_in_order(
    store: Store,
    unordered: Callable[[], None],
    monkeypatch: pytest.MonkeyPatch,
    commit_hash: Callable[[int], str],
    batch: int,
) -> None:
    """Neither those that were taken before keep the place they had then, nor do later ones get it."""
    original = series_analysis._tasks
    orders = [False] * batch + [True]  # one for each task until the other import puts its commits in order

    def tasks_while_another_orders(*arguments: Any) -> Iterator[Any]:
        for task in original(*arguments):
            if orders and orders.pop(0):
                unordered()
            yield task

    monkeypatch.setattr(series_analysis, "_tasks", tasks_while_another_orders)
    analyse(store, workers=(InThread(), 1))
    assert not orders
    assert _newest(store) == {commit_hash(COMMITS): SERIES}


def test_the_cached_order_follows_commits_that_move(store: Store, unordered: Callable[[], None]) -> None:
    with store.read() as connection:
        known = project_order(store, connection, "demo")
        assert known.commit_index.position.tolist() == [0, 1, 2, UNORDERED_POSITION]
        assert project_order(store, connection, "demo") is known
    unordered()
    with store.read() as connection:
        assert project_order(store, connection, "demo").commit_index.position.tolist() == [1, 2, 3, 0]


def test_the_cached_order_has_commits_whose_ids_are_lower_than_other_projects(store: Store) -> None:
    """PostgreSQL gives ids before it is known which of two projects' imports ends first."""
    commit = schema.commit
    with store.write("demo", of_project=True) as connection:
        connection.execute(insert(schema.project), [{"name": "demo"}, {"name": "other"}])
        mine, others = connection.execute(select(schema.project.c.id).order_by(schema.project.c.id)).scalars()
        connection.execute(insert(commit).values(id=7, project_id=others, hash="a" * 40, date_ms=1))
    with store.read() as connection:
        assert project_order(store, connection, "demo").commit_index.commits.tolist() == []
    with store.write("demo", of_project=True) as connection:
        connection.execute(insert(commit).values(id=5, project_id=mine, hash="b" * 40, date_ms=1))
    with store.read() as connection:
        assert project_order(store, connection, "demo").commit_index.commits.tolist() == [5]


def test_a_transaction_sees_the_order_of_its_own_snapshot(store: Store, unordered: Callable[[], None]) -> None:
    with store.read() as old:
        assert project_order(store, old, "demo").commit_index.position.tolist() == [0, 1, 2, UNORDERED_POSITION]
        unordered()
        with store.read() as new:
            assert project_order(store, new, "demo").commit_index.position.tolist() == [1, 2, 3, 0]
        assert project_order(store, old, "demo").commit_index.position.tolist() == [0, 1, 2, UNORDERED_POSITION]

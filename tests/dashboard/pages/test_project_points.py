"""The points of a project in memory: in order, of the newest state, and no other answers than points that are read."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.dashboard.suite_results import Suite
from warpwatch.dashboard.analysis.compare_sides import compare_commits
from warpwatch.dashboard.settings import Settings
from warpwatch.dashboard.store import Store, project_points, queries


@pytest.fixture
def kernels(history_store: Settings) -> Iterator[Store]:
    store = Store(history_store.database)
    yield store
    store.close()


def _comparable(record: Any) -> Any:
    """Records with arrays in them do not compare, nor does NaN."""
    if isinstance(record, tuple):
        return [_comparable(each) for each in record]
    if dataclasses.is_dataclass(record):
        return [_comparable(getattr(record, each.name)) for each in dataclasses.fields(record)]
    return str(record.tolist()) if isinstance(record, np.ndarray) else record


def test_each_series_stands_in_the_order_of_commits_and_runs_however_it_was_imported(store: Store, asv: Any) -> None:
    history = Suite(asv)
    for number, hour in ((5, 0), (2, 0), (9, 0), (2, 48), (0, 0)):
        history.commit(number, hour=hour)
        asv.load(store)
    held = project_points.project_points(store, "demo")
    assert held is not None
    commit_index, points = held.commit_index, held.points
    number_of = {number: place for place, number in enumerate(held.series.tolist())}
    for number in held.series.tolist():
        its = held.of(number)
        assert its is not None
        position = commit_index.position[np.searchsorted(commit_index.commits, points.commit[its])]
        started = commit_index.started_ms[np.searchsorted(commit_index.runs, points.run[its])]
        order = list(zip(position.tolist(), started.tolist(), strict=True))
        assert order == sorted(order)
        assert len(set(order)) == len(order)
        commits = points.commit[its].tolist()
        assert held.has_reruns[number_of[number]] == (len(set(commits)) < len(commits))
    assert held.has_reruns.any()
    assert held.of(10**6) is None


def test_what_is_imported_is_in_the_next_comparison(store: Store, asv: Any) -> None:
    history = Suite(asv)
    for number in (0, 1):
        history.commit(number)
    asv.load(store)
    commits = queries.commits(store, "demo")
    before = compare_commits(store, "demo", commits[1], commits[0], threshold=0.02)
    held = project_points.project_points(store, "demo")
    assert project_points.project_points(store, "demo") is held
    history.commit(1, {"warpwatch": 1.5}, hour=48)
    asv.load(store)
    after = compare_commits(store, "demo", commits[1], commits[0], threshold=0.02)
    head_runs = [row.estimate.head_runs if row.estimate else None for row in after.rows]
    assert head_runs == [2] * len(before.rows)
    assert project_points.project_points(store, "demo") is not held


def test_a_project_that_is_too_large_to_hold_gets_the_same_answers(
    kernels: Store, history_store: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(project_points, "MOST_POINTS", 10)
    large = Store(history_store.database)
    assert project_points.project_points(large, "kernels") is None
    assert project_points.project_points(kernels, "unknown") is None
    commits = queries.commits(kernels, "kernels")
    monkeypatch.undo()
    assert project_points.project_points(kernels, "kernels") is not None
    for base, head in ((commits[1], commits[0]), (commits[-1], commits[2]), (commits[4], commits[4])):
        held, read = (queries.pairs(store, "kernels", base.hash, head.hash) for store in (kernels, large))
        assert len(held) > 10
        assert [_comparable(pair) for pair in held] == [_comparable(pair) for pair in read]
    for commit in commits[:3]:
        pages = [queries.commit_page(store, "kernels", commit.hash) for store in (kernels, large)]
        assert pages[0] is not None
        assert pages[0] == pages[1]
        assert pages[0].points
    machine = queries.machines(kernels, "kernels")[0].name
    histories = [queries.machine_history(store, "kernels", machine) for store in (kernels, large)]
    assert histories[0] is not None
    assert histories[1] is not None
    assert [_comparable(each) for each in histories[0].series] == [_comparable(each) for each in histories[1].series]
    assert histories[0].outcomes == histories[1].outcomes
    large.close()

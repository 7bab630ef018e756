"""A failed analysis affects its own series only, is logged by name, and is repeated later."""

from typing import Any

import pytest
from sqlalchemy import select

from tests.asv_results import AsvResults
from warpwatch.dashboard.analysis import classify, series_analysis
from warpwatch.dashboard.analysis.series_analysis import analyse
from warpwatch.dashboard.store import Store, schema

BENCH = "suite.Bench.time_it"
COMMITS = 20


def _stale(store: Store) -> list[bool]:
    with store.read() as connection:
        return list(connection.execute(select(schema.series.c.stale).order_by(schema.series.c.id)).scalars())


@pytest.mark.parametrize("commits", [6, COMMITS])  # short ones wait for the noise of their machine
def test_an_analysis_that_fails_costs_its_own_series_alone(
    store: Store, asv: AsvResults, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, commits: int
) -> None:
    sizes = ["1", "2", "3"]
    asv.benchmark(BENCH, size=sizes)
    for number in range(commits):
        values = [(1 + n) * (1.5 if number >= commits // 2 else 1.0) for n in range(len(sizes))]
        asv.commit(number, {BENCH: asv.row(values, [sizes], started_at=number + 1, spread=0.001)})
    original = series_analysis._analysis

    def analysis(stale: Any, task: Any) -> Any:
        if stale.id == 2 and (commits == COMMITS or task.noise):
            raise ZeroDivisionError("an unforeseen case")
        return original(stale, task)

    with monkeypatch.context() as patch:
        patch.setattr(series_analysis, "_analysis", analysis)
        asv.load(store)
    assert _stale(store) == [False, True, False]
    (said,) = caplog.messages
    assert said.startswith(
        f"demo: {BENCH}(2) on box, env-py3.11: the analysis failed (ZeroDivisionError: an unforeseen"
    )
    assert "test_failed_analysis.py line" in said
    assert analyse(store) == (1 if commits == COMMITS else 3)  # short ones share the noise of their machine
    assert _stale(store) == [False] * 3
    with store.read() as connection:
        assert len(set(connection.execute(select(schema.changepoint.c.series_id)).scalars())) == 3


def test_a_machine_that_cannot_be_judged_leaves_the_others_judged(
    store: Store, asv: AsvResults, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for machine in ("one", "two"):
        for number in range(COMMITS):
            value = 1.5 if number >= COMMITS // 2 else 1.0
            row = asv.row([value + number % 7 / 1000], started_at=number + 1)
            asv.commit(number, {BENCH: row}, machine=machine)
    original = classify.classified

    def broken(findings: Any) -> Any:
        return _fails() if findings.machine.id == 1 else original(findings)

    with monkeypatch.context() as patch:
        patch.setattr(classify, "classified", broken)
        asv.load(store)
    (said,) = caplog.messages
    assert said.startswith(
        "changes of machine 1 of demo could not be classified (ZeroDivisionError: an unforeseen case"
    )
    change = schema.changepoint
    query = select(change.c.q_value).order_by(change.c.series_id)
    with store.read() as connection:
        first, second = connection.execute(query).scalars().all()
    assert (first is None, second is None) == (True, False)
    analyse(store)
    with store.read() as connection:
        assert None not in connection.execute(query).scalars().all()


def _fails(*_: object) -> Any:
    raise ZeroDivisionError("an unforeseen case")

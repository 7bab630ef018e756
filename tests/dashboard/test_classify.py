"""All findings of a machine judged together: what is the machine's is no commit's."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sqlalchemy import select, update

from tests.dashboard.suite_results import MATMUL, TRIAD, Suite
from tests.stored import new_regressions, regressions_by_alert, stored_history
from tools.store_state import state_of
from warpwatch.dashboard.analysis.classify import classify_machines
from warpwatch.dashboard.analysis.next_measurement import measure_again
from warpwatch.dashboard.analysis.series_analysis import analyse
from warpwatch.dashboard.model.alert import TriageFilter
from warpwatch.dashboard.model.changepoint import SeriesChange
from warpwatch.dashboard.model.overview import RowState
from warpwatch.dashboard.model.verdict import ChangeKind, Control, Verdict
from warpwatch.dashboard.store import Store, queries, schema
from warpwatch.dashboard.store.alert_opening import open_regression_alert
from warpwatch.dashboard.text.labels import state_detail

ALL = ("warpwatch", "eager", TRIAD, MATMUL)


def _suite(asv: Any, moved: dict[str, float], *, commits: int = 40, at: int = 25) -> None:
    history = Suite(asv, workloads=("w1", "w2", "w3"))
    for number in range(commits):
        history.commit(number, moved if number >= at else {})


def _changes(store: Store, search: str) -> list[SeriesChange]:
    (series, *_) = queries.find_series(store, "demo", search=search).series
    history = stored_history(store, series.key)
    assert history is not None
    return list(history.changes)


def test_what_all_canaries_did_too_is_the_machines_and_no_regression(store: Store, asv: Any) -> None:
    _suite(asv, dict.fromkeys(ALL, 1.06))
    asv.load(store)
    (change,) = _changes(store, "w1 warpwatch")
    assert change.kind is ChangeKind.MACHINE_STATE
    assert change.share is not None
    assert change.share.control is Control.CANARIES
    assert change.share.ci_low < 1 < change.share.ci_high
    assert change.share.value == pytest.approx(1.0, abs=0.1)
    assert queries.regressions(store, "demo") == ()
    assert new_regressions(store, "demo") == ()
    (group,) = queries.regressions(store, "demo", kind=ChangeKind.MACHINE_STATE)
    assert len(group.regressions) == 3
    assert {row.verdict for row in queries.overview(store, "demo")} == {Verdict.UNCHANGED}


def test_a_commits_step_is_reported_with_controls_that_stood_still(store: Store, asv: Any) -> None:
    _suite(asv, {"warpwatch": 1.06})
    asv.load(store)
    (change,) = _changes(store, "w1 warpwatch")
    assert change.kind is ChangeKind.STEP
    assert change.share is not None
    assert change.share.ci_high < 0.2
    assert change.without_machine is None
    assert change.q_value is not None
    assert change.q_value < 1e-3
    (group,) = new_regressions(store, "demo")
    assert len(group.regressions) == 3


def test_both_at_once_are_separated(sqlite_store: Store, asv: Any) -> None:
    _suite(asv, {name: 1.05 * (1.10 if name == "warpwatch" else 1.0) for name in ALL})
    asv.load(sqlite_store)
    (change,) = _changes(sqlite_store, "w1 warpwatch")
    assert change.kind is ChangeKind.STEP
    assert change.magnitude == pytest.approx(0.155, abs=0.01)
    assert change.share is not None
    assert change.share.value == pytest.approx(np.log(1.05) / np.log(1.155), abs=0.05)
    assert change.without_machine is not None
    assert change.without_machine.ci_low < 0.10 < change.without_machine.ci_high
    assert change.without_machine.value == pytest.approx(0.10, abs=0.01)
    assert len(new_regressions(sqlite_store, "demo")) == 1


def test_a_canarys_own_change_is_the_machines(sqlite_store: Store, asv: Any) -> None:
    _suite(asv, {TRIAD: 1.5})
    asv.load(sqlite_store)
    (change,) = _changes(sqlite_store, TRIAD)
    assert (change.kind, change.share, change.q_value) == (ChangeKind.MACHINE_STATE, None, None)


def test_canaries_that_went_apart_leave_it_open(sqlite_store: Store, asv: Any) -> None:
    _suite(asv, {"warpwatch": 1.06, MATMUL: 1.06})
    asv.load(sqlite_store)
    (change,) = _changes(sqlite_store, "w1 warpwatch")
    assert change.kind is ChangeKind.STEP
    assert change.share is not None
    assert change.share.ci_low < 0.1
    assert change.share.ci_high > 0.9


@pytest.fixture
def plain(asv: Any) -> Callable[..., Any]:
    """A project without controls: twenty-four series of eight suites, each moved by a factor from a commit on."""

    def write(moved: Callable[[int], float], *, commits: int = 40, at: int = 25) -> Any:
        noise = np.exp(np.random.default_rng(3).normal(0, 0.003, (24, commits)))
        names = [f"suite{number % 8}.Bench.time_{number // 8}" for number in range(24)]
        for name in names:
            asv.benchmark(name)
        for number in range(commits):
            rows = {
                name: asv.row(
                    [1e-3 * (n + 1) * noise[n, number] * (moved(n) if number >= at else 1.0)], started_at=number + 1
                )
                for n, name in enumerate(names)
            }
            asv.commit(number, rows)
        return asv

    return write


def test_without_controls_what_nearly_all_series_did_is_reported_once_with_their_share(
    store: Store, plain: Callable[..., Any]
) -> None:
    """It may be the machine, or a flag of the compiler: neither can be excluded, so nothing is suppressed."""
    plain(lambda number: 1.08).load(store)
    (series, *_) = queries.find_series(store, "demo", search="suite0 time_0").series
    (change,) = _changes(store, "suite0 time_0")
    assert change.kind is ChangeKind.STEP
    assert change.share is not None
    assert change.share.control is Control.OTHERS
    assert change.share.ci_low < 1 < change.share.ci_high
    assert change.without_machine is None
    wanted = measure_again(series, change)
    assert wanted is not None
    assert wanted.reason.startswith("Nearly all series of the machine changed")
    (group,) = new_regressions(store, "demo")
    assert len(group.regressions) == 24


@pytest.mark.parametrize("touched", [1, 8, 15])
def test_without_controls_what_a_part_of_the_series_did_is_a_commits(
    sqlite_store: Store, plain: Callable[..., Any], touched: int
) -> None:
    plain(lambda number: 1.08 if number < touched else 1.0).load(sqlite_store)
    (change,) = _changes(sqlite_store, "suite0 time_0")
    assert change.kind is ChangeKind.STEP
    (group,) = queries.regressions(sqlite_store, "demo")
    assert len(group.regressions) == touched


def test_few_series_of_one_suite_speak_for_no_machine(sqlite_store: Store, asv: Any) -> None:
    params = [[str(n) for n in range(20)]]
    asv.benchmark("suite.Bench.time_it", size=params[0])
    for number in range(30):
        values = [(n + 1) * (1.1 if number >= 15 else 1.0) * (1 + number * n % 7 / 1000) for n in range(20)]
        asv.commit(number, {"suite.Bench.time_it": asv.row(values, params, started_at=number + 1)})
    asv.load(sqlite_store)
    (group,) = queries.regressions(sqlite_store, "demo")
    assert len(group.regressions) == 20
    assert all(one.change.share is None for one in group.regressions)


def _doubt(store: Store, chance: float) -> None:
    """Has chance alone show as much in each of three series, so that their q is as large."""
    with store.write("demo") as connection:
        connection.execute(update(schema.changepoint).values(p_adjusted=chance))
        connection.execute(update(schema.machine).values(findings=schema.machine.c.findings + 1))
    classify_machines(store)


def test_a_step_that_is_not_significant_is_no_verdict_until_more_runs_confirm_it(store: Store, asv: Any) -> None:
    _suite(asv, {"warpwatch": 1.06})
    asv.load(store)
    for chance, kind in ((0.04, ChangeKind.STEP), (0.06, ChangeKind.NOT_SIGNIFICANT)):
        _doubt(store, chance)
        (change,) = _changes(store, "w1 warpwatch")
        assert (change.kind, change.q_value) == (kind, chance)
    assert {row.verdict for row in queries.overview(store, "demo")} == {Verdict.INCONCLUSIVE}
    (first, *_) = standings = queries.standings(store, "demo")
    assert {each.state for each in standings} == {RowState.NOT_SIGNIFICANT}
    assert (first.month, state_detail(first)) == (0.0, "+6.0 %, q 0.0600")
    assert queries.regressions(store, "demo") == ()
    assert queries.triage_items(store, "demo", TriageFilter()).total == 0
    assert queries.steps_of_commits(store, "demo") == {}
    (listed,) = queries.unattributed_changes(store, "demo", ChangeKind.NOT_SIGNIFICANT).groups
    assert len(listed.regressions) == 3
    assert new_regressions(store, "demo") == ()
    (asked,) = new_regressions(store, "demo", max_false_discovery_rate=0.1)
    assert len(asked.regressions) == 3


def test_an_alert_goes_on_where_a_later_run_doubts_what_it_was_opened_for(sqlite_store: Store, asv: Any) -> None:
    _suite(asv, {"warpwatch": 1.06})
    asv.load(sqlite_store)
    (group,) = new_regressions(sqlite_store, "demo")
    number = open_regression_alert(sqlite_store, group, messages={}, now_ms=1)
    _doubt(sqlite_store, 0.06)
    assert len(regressions_by_alert(sqlite_store, "demo").of_alerts[number or 0]) == 3
    (card,) = queries.triage_items(sqlite_store, "demo", TriageFilter()).items
    assert ([one.change.kind for one in card.regressions], card.gone) == ([ChangeKind.NOT_SIGNIFICANT] * 3, ())


def test_the_order_of_the_analysis_and_a_kill_in_between_make_no_difference(store: Store, asv: Any) -> None:
    _suite(asv, dict.fromkeys(ALL, 1.06))
    asv.load(store)
    expected = state_of(store)
    machine, changepoint, series = schema.machine, schema.changepoint, schema.series
    # As after a kill between the analysis and the judgement: findings are fresh, and have not been judged.
    with store.write("demo") as connection:
        connection.execute(update(machine).values(findings=machine.c.findings + 1))
        connection.execute(update(changepoint).values(kind="step", control=None, control_share=None, q_value=0.5))
        connection.execute(update(schema.summary).values(verdict="regressed"))
    assert queries.regressions(store, "demo") != ()
    analyse(store)
    assert state_of(store) == expected
    # And series by series.
    with store.read() as connection:
        ids = connection.execute(select(series.c.id).order_by(series.c.id.desc())).scalars().all()
    for number in ids:
        with store.write("demo") as connection:
            connection.execute(update(series).where(series.c.id == number).values(stale=True))
        analyse(store)
    assert state_of(store) == expected


def test_what_is_judged_is_not_judged_again(sqlite_store: Store, plain: Callable[..., Any]) -> None:
    plain(lambda number: 1.0).load(sqlite_store)
    with sqlite_store.read() as connection:
        rows = connection.execute(select(schema.machine.c.findings, schema.machine.c.judged)).all()
    assert all(row.findings == row.judged > 0 for row in rows)
    classify_machines(sqlite_store)
    with sqlite_store.read() as connection:
        assert connection.execute(select(schema.machine.c.findings, schema.machine.c.judged)).all() == rows

"""A commit that was not measured, as its machine code is that of an earlier one: neither an alarm nor a failure."""

from typing import Any

import pytest

from tests.dashboard.suite_results import Suite
from tests.stored import stored_history
from warpwatch.dashboard.analysis.compare_commits import check
from warpwatch.dashboard.cli.report import report_table
from warpwatch.dashboard.model.comparison import Comparison, Outcome
from warpwatch.dashboard.model.series import Status
from warpwatch.dashboard.model.verdict import Verdict
from warpwatch.dashboard.store import Store, queries

WHY = "code unchanged since 00000002"
OLD, NEW = "a" * 64, "b" * 64


@pytest.fixture
def suite(asv: Any) -> Suite:
    """Three commits measured with one machine code, then one that was not measured for it."""
    history = Suite(asv)
    for number in range(3):
        history.commit(number, code=OLD)
    history.commit(3, code=OLD, status="unchanged", reason=WHY)
    return history


def _check(store: Store, base: int, head: int) -> Comparison:
    commits = [queries.find_commit(store, "demo", f"{number:08x}") for number in (base, head)]
    assert commits[0] is not None
    assert commits[1] is not None
    return check(store, "demo", commits[0], commits[1], threshold=0.02)


def test_the_history_says_that_it_was_not_measured_and_why(store: Store, suite: Suite) -> None:
    assert suite.asv.load(store).warnings == ()
    (row,) = queries.overview(store, "demo")
    history = stored_history(store, row.series.key)
    assert history is not None
    assert [point.status for point in history.points] == [Status.OK] * 3 + [Status.UNCHANGED]
    assert (history.points[-1].value, history.points[-1].reason) == (None, WHY)


def test_the_overview_keeps_the_last_number_and_raises_no_alarm(sqlite_store: Store, suite: Suite) -> None:
    suite.commit(4, code=OLD, status="unchanged", reason=WHY)
    suite.asv.load(sqlite_store)
    (row,) = queries.overview(sqlite_store, "demo")
    assert (row.status, row.reason, row.commit.position) == (Status.UNCHANGED, WHY, 4)
    assert row.value == pytest.approx(1e-4, rel=0.01)
    assert row.verdict is Verdict.INCONCLUSIVE  # three commits with a number are too few for a verdict, as before
    assert row.baseline is None  # the rival's number is of another run
    assert queries.regressions(sqlite_store, "demo") == ()
    text = report_table(queries.report(sqlite_store))
    assert f"not measured: {WHY}" in text
    assert all(len(line) <= 100 for line in text.splitlines())


def test_a_series_that_was_never_measured_is_missing_not_failed(sqlite_store: Store, asv: Any) -> None:
    Suite(asv).commit(0, code=OLD, status="unchanged", reason=WHY)
    asv.load(sqlite_store)
    (row,) = queries.overview(sqlite_store, "demo")
    assert (row.value, row.verdict, row.status) == (None, Verdict.MISSING, Status.UNCHANGED)


@pytest.mark.parametrize(("base", "head"), [(2, 3), (3, 4), (2, 4)])
def test_a_check_of_equal_code_is_unchanged_and_states_that_it_was_not_measured(
    sqlite_store: Store, suite: Suite, base: int, head: int
) -> None:
    suite.commit(4, code=OLD, status="unchanged", reason=WHY)
    suite.asv.load(sqlite_store)
    found = _check(sqlite_store, base, head)
    (row,) = found.rows
    assert (row.verdict, row.reason) == (Verdict.UNCHANGED, f"not measured: {WHY}")
    assert found.outcome is Outcome.UNCHANGED


def test_new_code_is_compared_with_the_commit_that_measured_the_old(sqlite_store: Store, suite: Suite) -> None:
    suite.commit(4, {"warpwatch": 1.3}, code=NEW)
    suite.asv.load(sqlite_store)
    (row,) = _check(sqlite_store, 3, 4).rows
    assert row.verdict is Verdict.REGRESSED
    assert row.base == pytest.approx(1e-4, rel=0.01)


def test_code_that_went_back_is_compared_as_what_it_went_back_to(sqlite_store: Store, suite: Suite) -> None:
    """The commit before is slow; this one's code is that of the third, so it is faster than the one before."""
    suite.commit(4, {"warpwatch": 1.3}, code=NEW)
    suite.commit(5, code=OLD, status="unchanged", reason=WHY)
    suite.asv.load(sqlite_store)
    (row,) = _check(sqlite_store, 4, 5).rows
    assert row.verdict is Verdict.IMPROVED


def test_without_a_known_code_there_is_nothing_to_compare_and_no_failure(sqlite_store: Store, asv: Any) -> None:
    history = Suite(asv)
    history.commit(0)
    history.commit(1, status="unchanged", reason=WHY)
    asv.load(sqlite_store)
    (row,) = _check(sqlite_store, 0, 1).rows
    assert (row.verdict, row.reason) == (Verdict.MISSING, f"not measured: {WHY}")

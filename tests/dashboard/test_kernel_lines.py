"""Kernels folded from their workloads: states, steps of a month and a year, typical numbers."""

import math
from dataclasses import replace
from typing import Any

import pytest

from tests.dashboard.suite_results import Suite
from tests.stored import stored_history
from warpwatch.dashboard.model.kernel_line import KernelLine, kernel_lines, tally
from warpwatch.dashboard.model.metric import metric
from warpwatch.dashboard.model.overview import RowState
from warpwatch.dashboard.store import Store, queries


def _line(store: Store) -> KernelLine:
    (line,) = kernel_lines(queries.standings(store, "demo"))
    return line


def test_a_kernel_is_one_line_with_the_typical_numbers_of_its_workloads(store: Store, asv: Any) -> None:
    history = Suite(asv, workloads=("w1", "w2", "w10"))
    for number in range(8):
        history.commit(number)
    asv.load(store)
    line = _line(store)
    assert (line.name, line.machine, line.workloads, line.implementations) == ("rope", "box", 3, ("warpwatch",))
    assert [each.row.series.workload for each in line.rows] == ["w1", "w2", "w10"]
    assert (line.state, line.states) == (RowState.UNCHANGED, ((RowState.UNCHANGED, 3),))
    assert line.baseline is not None
    assert line.latest is not None
    # By hand: every workload has the same numbers here.
    row = line.rows[0].row
    assert row.baseline is not None
    assert (line.baseline.value, line.baseline.count) == (pytest.approx(row.baseline.ratio), 3)
    assert line.latest.value == pytest.approx(row.value)
    assert line.trend == pytest.approx([value / sorted(row.sparkline)[4] for value in row.sparkline], rel=0.002)  # type: ignore[type-var, operator, arg-type]


def test_a_kernels_host_overhead_is_a_row_of_it_and_no_workload(store: Store, asv: Any) -> None:
    history = Suite(asv, workloads=("w1", "w2"))
    for number in range(8):
        history.commit(number)
    asv.load(store)
    timed = queries.standings(store, "demo")
    series = replace(
        timed[0].row.series,
        benchmark="benchmarks.host_overhead.HostOverhead.track_host_overhead",
        workload="rope",
        parameters=(("workload", "rope"), ("implementation", "warpwatch")),
        metric=metric("host_overhead", "seconds"),
    )
    overhead = replace(timed[0], row=replace(timed[0].row, series=series))
    (line,) = kernel_lines([*timed, overhead])
    assert (line.workloads, len(line.rows), line.others, line.is_complete) == (2, 3, (("host overhead", 1),), True)


def test_steps_of_a_level_add_up_over_the_requested_time(store: Store, asv: Any) -> None:
    history = Suite(asv)
    for number in range(40):
        factor = 1.1 if number >= 30 else 1.25 if number >= 15 else 1.0
        history.commit(number, {"warpwatch": factor})
    asv.load(store)
    (standing,) = queries.standings(store, "demo")
    recorded = stored_history(store, standing.row.series.key)
    assert recorded is not None
    assert len(recorded.changes) == 2
    assert standing.month == standing.year == pytest.approx(math.prod(1 + c.magnitude for c in recorded.changes) - 1)
    assert standing.month == pytest.approx(0.1, abs=0.01)
    assert standing.state is RowState.IMPROVED  # the newest step


def test_the_machines_own_movement_is_in_no_kernels_change(store: Store, asv: Any) -> None:
    history = Suite(asv)
    for number in range(40):
        slow = 1.2 if number >= 20 else 1.0
        history.commit(number, dict.fromkeys(history.levels, slow))
    asv.load(store)
    (standing,) = queries.standings(store, "demo")
    assert (standing.month, standing.year) == (0.0, 0.0)


def test_a_new_gpu_without_references_has_no_verdict_and_a_young_history_is_too_new(store: Store, asv: Any) -> None:
    history = Suite(asv)
    for number in range(2):
        history.commit(number)
    asv.load(store)
    assert _line(store).state is RowState.NEW
    for number in range(2, 6):
        history.commit(number)
    history.commit(6, card="GPU-bbbbbbbb-2")
    asv.load(store)
    line = _line(store)
    (standing,) = line.rows
    assert (line.state, standing.gpu, standing.gpu_commits) == (RowState.FEW_REFERENCES, "GPU-bbbbbbbb-2", 1)


def test_lines_that_need_attention_are_named_and_absent_ones_are_apart(store: Store, asv: Any) -> None:
    history = Suite(asv)
    for number in range(8):
        history.commit(number)
    history.commit(8, status="invalid", reason="throttled")
    asv.load(store)
    line = _line(store)
    assert (line.state, line.latest, line.absent) == (RowState.INVALID, None, ())
    assert tally(line.rows) == ((RowState.INVALID, 1),)
    assert queries.standings(store, "nobody") == ()

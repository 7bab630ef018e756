"""Counted quantities, short histories and long ones: each gets the rule it can bear."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warpwatch.dashboard.model.metric import metric
from warpwatch.dashboard.model.verdict import Verdict
from warpwatch.dashboard.statistics.comparison import RunValue
from warpwatch.dashboard.statistics.detection import detect
from warpwatch.dashboard.statistics.summary import CommitLevels, Summary, summarise

DAY_MS = 86_400_000
TIME, BYTES, REGISTERS = (metric("m", unit) for unit in ("seconds", "bytes", "registers"))


def _commits(values: list[float], scatter: float = 0.01) -> list[list[RunValue]]:
    return [[RunValue(value=v, q25=v * (1 - scatter / 2), q75=v * (1 + scatter / 2), sample_count=50)] for v in values]


def test_a_register_more_is_reported_at_once() -> None:
    (found,) = detect(_commits([96.0] * 5 + [128.0], 0.0), REGISTERS).changes
    assert (found.index, found.before, found.after) == (5, 96.0, 128.0)


def test_every_change_of_an_exact_quantity_is_reported_at_once_and_none_where_nothing_changed() -> None:
    launches = metric("kernels_launched", "launches")
    assert [found.index for found in detect(_commits([3.0, 4.0, 3.0], 0.0), launches).changes] == [1, 2]
    assert [found.index for found in detect(_commits([100.0, 101.0], 0.0), launches).changes] == [1]
    assert detect(_commits([3.0] * 30, 0.0), launches).changes == ()
    shares = detect(_commits([0.5, 0.375], 0.0), metric("occupancy", "share")).changes
    assert [(found.magnitude, found.ci_low, found.ci_high) for found in shares] == [(-0.25, -0.25, -0.25)]


def test_memory_that_grows_by_an_allocators_rounding_is_not_reported() -> None:
    memory = metric("peak_memory", "bytes")
    assert detect(_commits([1e9, 1e9 + 512], 0.0), memory).changes == ()
    assert [found.index for found in detect(_commits([0.0, 512.0], 0.0), memory).changes] == [1]


def test_a_constant_time_has_no_change_and_a_step_out_of_it_has_one() -> None:
    assert detect(_commits([1e-3] * 20, 0.0), TIME).changes == ()
    assert [found.index for found in detect(_commits([1e-3] * 10 + [1.02e-3] * 10, 0.0), TIME).changes] == [10]


def test_a_short_constant_time_on_a_machine_without_noise_has_no_change_and_a_step_out_of_it_has_one() -> None:
    assert detect(_commits([1e-3] * 9, 0.0), TIME, 0.0).changes == ()
    assert [found.index for found in detect(_commits([1e-3] * 5 + [1.02e-3] * 4, 0.0), TIME, 0.0).changes] == [5]


def test_spilling_from_nothing_is_reported() -> None:
    (found,) = detect(_commits([0.0] * 5 + [64.0], 0.0), BYTES).changes
    assert (found.index, found.magnitude) == (5, 1.0)


def test_bytes_that_move_at_every_commit_are_not_treated_as_counts() -> None:
    rng = np.random.default_rng(2)
    assert detect(_commits([float(1_000_000 + rng.integers(5000)) for _ in range(40)], 0.0), BYTES).changes == ()


def test_a_doubling_shows_from_the_second_commit_on() -> None:
    (found,) = detect(_commits([1e-3, 2e-3]), TIME).changes
    assert (found.index, round(found.magnitude, 3)) == (1, 1.0)


@given(st.integers(2, 7), st.integers(0, 2**32 - 1))
@settings(max_examples=60)
def test_a_short_history_of_a_quiet_machine_raises_nothing(count: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    assert detect(_commits([1e-3 * (1 + 0.015 * rng.standard_normal()) for _ in range(count)]), TIME).changes == ()


@pytest.mark.parametrize("before", [4, 6, 10, 20])
@pytest.mark.parametrize("after", [4, 6, 10])
def test_a_large_step_is_reported_in_a_history_of_any_length(before: int, after: int) -> None:
    rng = np.random.default_rng(before * after)
    values = [level * (1 + 0.01 * rng.standard_normal()) for level in [1e-3] * before + [1.6e-3] * after]
    assert [found.index for found in detect(_commits(values), TIME).changes] == [before]


def test_a_short_history_whose_samples_scatter_is_not_believed() -> None:
    assert detect(_commits([1e-3, 1.3e-3], scatter=0.3), TIME).changes == ()


def _levels(values: Sequence[float | None], *, failed: bool = True) -> CommitLevels:
    """One commit a day, all measured by one GPU."""
    level = np.array([np.nan if value is None else value for value in values])
    days = np.arange(len(values))
    return CommitLevels(
        commit_id=days,
        date_ms=days * DAY_MS,
        level=level,
        comparable=~np.isnan(level),
        newest_failed=failed and values[-1] is None,
    )


def _summary(values: Sequence[float | None], unit: str = "seconds", *, failed: bool = True) -> Summary:
    changes = detect(_commits([value for value in values if value is not None], 0.0), TIME).changes
    return summarise(_levels(values, failed=failed), changes[-1] if changes else None, metric("m", unit))


def test_a_recent_step_is_the_change_that_is_shown() -> None:
    values = [1.0] * 10 + [1.5] * 10
    summary = _summary(values)
    assert (summary.verdict, summary.change_is_step, summary.change_commit_id) == (Verdict.REGRESSED, True, 10)
    assert _summary(values, "GB/s").verdict is Verdict.IMPROVED


def test_an_old_step_is_news_no_more() -> None:
    summary = _summary([1.0] * 10 + [1.5] * 60)
    assert (summary.verdict, summary.change, summary.change_commit_id) == (Verdict.UNCHANGED, 0.0, 39)


def test_a_newest_commit_without_a_number_is_invalid_or_missing() -> None:
    assert _summary([1.0, None]).verdict is Verdict.INVALID
    assert _summary([1.0, None], failed=False).verdict is Verdict.MISSING


def test_one_commit_shows_no_change() -> None:
    summary = _summary([1.0])
    assert (summary.verdict, summary.change, summary.sparkline) == (Verdict.INCONCLUSIVE, None, (1.0,))


def test_two_equal_counts_show_that_nothing_changed() -> None:
    """Measured quantities need four commits, exact ones two."""
    assert _summary([48.0, 48.0], "registers").verdict is Verdict.UNCHANGED
    assert _summary([48.0], "registers").verdict is Verdict.INCONCLUSIVE
    assert _summary([1.0, 1.0]).verdict is Verdict.INCONCLUSIVE

"""Explanation of a triage item: the parts of machine and kernel, severity, suspects."""

import math
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis.strategies import floats

from warpwatch.dashboard.analysis.explanation import parts_of_change, triage_details
from warpwatch.dashboard.model.alert import ItemVersion, TriageItem, TriageState
from warpwatch.dashboard.model.changepoint import ControlShare, Regression, SeriesChange
from warpwatch.dashboard.model.metric import metric
from warpwatch.dashboard.model.series import Commit, Series
from warpwatch.dashboard.model.verdict import Control
from warpwatch.dashboard.statistics.summary import severity

COMMIT = Commit(
    hash="a" * 40, date=datetime(2026, 1, 1, tzinfo=UTC), subject=None, author=None, position=1, unmeasured_before=None
)
CHANGE = SeriesChange(
    index=1,
    commit=COMMIT,
    previous_commit=COMMIT,
    range_start=COMMIT,
    range_end=COMMIT,
    before=1.0,
    after=1.1,
    magnitude=0.1,
    ci_low=0.08,
    ci_high=0.12,
    p_value=0.0,
    is_worse=True,
)


@given(floats(-0.9, 5), floats(-2, 2))
def test_the_machines_part_and_the_kernels_make_the_whole(magnitude: float, share: float) -> None:
    whole = replace(
        CHANGE,
        magnitude=magnitude,
        share=ControlShare(control=Control.CANARIES, value=share, ci_low=share - 0.1, ci_high=share + 0.1),
    )
    parts = parts_of_change(whole)
    assert parts is not None
    assert (1 + parts.machine.value) * (1 + parts.kernel.value) == pytest.approx(1 + magnitude)
    for part in (parts.machine, parts.kernel):
        assert part.ci_low <= part.value <= part.ci_high


def test_without_a_control_or_with_one_that_may_share_the_commits_doing_nothing_is_taken_apart() -> None:
    assert parts_of_change(CHANGE) is None
    others = ControlShare(control=Control.OTHERS, value=0.5, ci_low=0.4, ci_high=0.6)
    assert parts_of_change(replace(CHANGE, share=others)) is None


@given(floats(0.001, 3), floats(0, 3))
def test_a_doubling_weighs_as_a_half_and_the_nearer_end_counts(low: float, more: float) -> None:
    slower, faster = severity(low, low + more), severity(1 / (1 + low + more) - 1, 1 / (1 + low) - 1)
    assert slower == pytest.approx(faster) == pytest.approx(math.log1p(low))
    assert severity(low, low + more, machine_share=1.0) == 0
    assert severity(low, low + more, machine_share=0.25) == pytest.approx(0.75 * slower)
    assert severity(-low, more) == 0


SERIES = Series(
    key="0" * 16,
    project="demo",
    benchmark="suite.time_it",
    parameters=(),
    machine="box",
    environment="env",
    metric=metric("time", "seconds"),
    workload=None,
    implementation=None,
    is_baseline=False,
    listed=True,
)
COMMITS = tuple(replace(COMMIT, hash=f"{position:040x}", position=position) for position in range(12))


def _item(found: int, chances: tuple[float, ...]) -> TriageItem:
    """An item at COMMITS[found]; the chances are those of COMMITS[1] and the following."""
    change = replace(
        CHANGE,
        commit=COMMITS[found],
        previous_commit=COMMITS[found - 1],
        range_start=COMMITS[0],
        range_end=COMMITS[len(chances)],
        posterior=tuple(zip(COMMITS[1:], chances, strict=False)),
    )
    return TriageItem(
        seen=ItemVersion(key="new", version="1"),
        machine="box",
        commit=change.commit,
        state=TriageState.UNTRIAGED,
        previous_commit=change.previous_commit,
        regressions=(Regression(series=SERIES, change=change),),
        gone=(),
        matching=1,
        total=1,
        severity=0.1,
        alert=None,
    )


def test_commits_that_the_values_all_but_rule_out_are_counted_and_not_listed() -> None:
    story = triage_details(_item(1, (0.85, 0.1, 0.0004, 0.0, 0.0)), None)
    assert [each.commit.position for each in story.suspects] == [1, 2]
    assert story.unlikely == 3
    assert story.log.endswith(f" {COMMITS[0].hash}..{COMMITS[1].hash}")


def test_commits_that_are_all_as_unlikely_are_all_suspects() -> None:
    story = triage_details(_item(1, (0.0003,) * 11), None)
    assert (len(story.suspects), story.unlikely) == (11, 0)


def test_commands_reach_the_suspects_where_the_level_begins_at_a_commit_that_is_none() -> None:
    story = triage_details(_item(6, (0.85, 0.1, 0.01, 0.0, 0.0, 0.0, 0.0)), None)
    assert story.log.endswith(f" {COMMITS[0].hash}..{COMMITS[7].hash}")
    assert story.reproduce is not None
    assert f" {COMMITS[0].hash} {COMMITS[7].hash} --bench " in story.reproduce

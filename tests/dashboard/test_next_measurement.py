"""The next measurement for a change: the few most informative commits, and a command that measures them."""

import shlex
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from warpwatch.dashboard.analysis.next_measurement import (
    asv_between,
    asv_command,
    asv_commits,
    gate_command,
    measure_again,
)
from warpwatch.dashboard.model.changepoint import ControlShare, SeriesChange
from warpwatch.dashboard.model.metric import metric
from warpwatch.dashboard.model.series import Commit, Series
from warpwatch.dashboard.model.verdict import ChangeKind, Control

SERIES = Series(
    key="0" * 16,
    project="p",
    benchmark="suite.time_it",
    parameters=(),
    metric=metric("time", "seconds"),
    machine="box",
    environment="e",
    workload=None,
    implementation=None,
    is_baseline=False,
    listed=True,
)
COMMITS = [
    Commit(
        hash=f"{n:08x}" + "c" * 32,
        date=datetime(2026, 1, 1, tzinfo=UTC),
        subject=None,
        author=None,
        position=n,
        unmeasured_before=0,
    )
    for n in range(20)
]


def _change(posterior: dict[int, float], index: int) -> SeriesChange:
    return SeriesChange(
        index=index,
        commit=COMMITS[index],
        previous_commit=COMMITS[index - 1],
        range_start=COMMITS[min(posterior) - 1],
        range_end=COMMITS[max(posterior)],
        before=1.0,
        after=1.1,
        magnitude=0.1,
        ci_low=0.09,
        ci_high=0.11,
        p_value=1e-6,
        is_worse=True,
        q_value=0.001,
        posterior=tuple((COMMITS[place], held) for place, held in posterior.items()),
    )


SETTLED = _change({10: 0.999}, 10)


def test_a_change_between_two_neighbours_needs_no_measurement() -> None:
    assert measure_again(SERIES, SETTLED) is None


def test_of_a_range_those_commits_are_measured_that_may_be_of_either_level() -> None:
    even = dict.fromkeys(range(8, 16), 0.12)
    wanted = measure_again(SERIES, _change(even, 10))
    assert wanted is not None
    assert [commit.position for commit in wanted.commits] == [9, 11, 13]
    assert "One of 8 measured commits" in wanted.reason
    assert wanted.command is not None
    words = shlex.split(wanted.command.replace("| ", ""))
    assert words[:2] == ["printf", "%s\\n"]
    assert words[2:5] == [commit.hash for commit in wanted.commits]
    assert words[-1] == "HASHFILE:-"


@pytest.mark.parametrize(("posterior", "positions"), [({10: 0.6, 11: 0.38}, [10]), ({9: 0.02, 10: 0.9, 11: 0.04}, [])])
def test_commits_that_are_surely_of_one_level_are_not_measured(
    posterior: dict[int, float], positions: list[int]
) -> None:
    wanted = measure_again(SERIES, _change(posterior, 10))
    assert [commit.position for commit in wanted.commits] == positions if wanted else positions == []


def test_unmeasured_commits_in_between_are_measured_at_equal_distances() -> None:
    gap = replace(SETTLED, commit=replace(COMMITS[10], unmeasured_before=12))
    wanted = measure_again(SERIES, gap)
    assert wanted is not None
    assert wanted.reason.startswith("12 commits between")
    assert wanted.command is not None
    assert f"--steps 5 --bench '^suite\\.time_it$' {COMMITS[9].hash}..{COMMITS[10].hash}" in wanted.command
    elsewhere = measure_again(SERIES, replace(SETTLED, previous_commit=COMMITS[8]))
    assert elsewhere is not None
    assert elsewhere.reason.startswith("At least 1 commit between")


def test_what_a_result_file_calls_a_commit_is_never_a_command() -> None:
    """Files name commits as they like; what a page shows is pasted into a shell."""
    hostile = [replace(COMMITS[n], hash=f"$(touch here{n}) ; id `x`") for n in range(20)]
    base, head = hostile[9:11]
    commands = [
        asv_command(SERIES, head),
        asv_commits(SERIES, hostile[:3]),
        asv_between(SERIES, base, head, 5),
        gate_command(SERIES, base, head),
    ]
    for command in commands:
        assert command is not None
        lexer = shlex.shlex(command, posix=False, punctuation_chars=True)
        bare = [word for word in lexer if not word.startswith("'")]
        assert not any("touch" in word or word in {";", "id"} for word in bare)


OPEN = ControlShare(control=Control.CANARIES, value=0.4, ci_low=0.1, ci_high=0.7)


@pytest.mark.parametrize("doubt", [{"kind": ChangeKind.NOT_SIGNIFICANT, "q_value": 0.3}, {"share": OPEN}])
def test_a_change_that_is_not_significant_or_the_machines_is_measured_at_both_ends_first(
    doubt: dict[str, object],
) -> None:
    wanted = measure_again(SERIES, replace(_change(dict.fromkeys(range(8, 16), 0.12), 10), **doubt))  # type: ignore[arg-type]
    assert wanted is not None
    assert [commit.position for commit in wanted.commits] == [9, 10]
    assert wanted.reason.endswith("Measure both ends of the change in one session.")


def test_results_of_another_tool_come_without_a_command() -> None:
    series = replace(SERIES, is_from_asv=False)
    wanted = measure_again(series, _change(dict.fromkeys(range(8, 16), 0.12), 10))
    assert wanted is not None
    assert wanted.command is None


def test_a_change_of_no_commit_needs_no_measurement() -> None:
    assert measure_again(SERIES, replace(SETTLED, kind=ChangeKind.MACHINE_STATE, q_value=0.9)) is None

"""An estimate has a basis, or there is none."""

import pytest

from warpwatch.ci.make_run.measurement_run import TimeLeft
from warpwatch.dashboard.web.measurement import Count


def count(done: int, total: int = 100) -> Count:
    return Count(done=done, total=total)


def test_there_is_no_estimate_before_a_twentieth_is_compiled() -> None:
    times = TimeLeft()
    times.enter("compiling", 1, now_s=0)
    assert times.estimate(None, 2, now_s=3) is None
    assert times.estimate(count(4), 2, now_s=3) is None


def test_while_the_first_commit_compiles_only_that_step_can_be_estimated() -> None:
    times = TimeLeft()
    times.enter("compiling", 1, now_s=0)
    assert times.estimate(count(25), 2, now_s=30) == (90, "this step")


def test_the_first_commit_has_no_estimate_for_measuring() -> None:
    """Half of the time lies in the first few benchmarks: done and total say nothing."""
    times = TimeLeft()
    times.enter("compiling", 1, now_s=0)
    times.enter("measuring", 1, now_s=60)
    assert times.estimate(count(50), 2, now_s=100) is None


@pytest.fixture
def second_commit() -> TimeLeft:
    """After a commit of 60 s to compile and 300 s to measure, of which the first 10 benchmarks took 200 s."""
    times = TimeLeft()
    times.enter("compiling", 1, now_s=0)
    times.enter("measuring", 1, now_s=60)
    for done, now_s in ((0, 60), (10, 260), (100, 350)):
        times.estimate(count(done), 2, now_s)
    assert times.enter("compiling", 2, now_s=360) == "measuring commit 1: 300 s"
    return times


def test_a_later_commit_goes_by_the_one_before(second_commit: TimeLeft) -> None:
    assert second_commit.estimate(count(50), 1, now_s=390) == (30 + 300 + 360, "all commits")
    assert second_commit.enter("measuring", 2, now_s=420) == "compiling commit 2: 60 s"
    assert second_commit.estimate(count(0), 1, now_s=520) == (200 + 360, "all commits")
    assert second_commit.estimate(count(10), 1, now_s=620) == (100 + 360, "all commits")
    assert second_commit.estimate(count(10), 0, now_s=620) == (100, "all commits")


def test_a_slower_commit_never_has_less_than_nothing_left(second_commit: TimeLeft) -> None:
    second_commit.enter("measuring", 2, now_s=420)
    assert second_commit.estimate(count(99), 0, now_s=5000) == (10, "all commits")

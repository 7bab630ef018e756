"""Reports of a bisect; real bisects are in tests/end_to_end/test_bisect.py."""

import math

import numpy as np

from tools.bisect_trial import SimulatedBench, World
from tools.gate_trial import Recorded
from warpwatch.ci.bisect.bisect_loop import SearchSettings, search
from warpwatch.ci.bisect.bisect_report import BisectReport, as_table
from warpwatch.ci.bisect.commit_range import RangeCommit
from warpwatch.ci.bisect.run_likelihood import ExpectedNoise
from warpwatch.dashboard.model.metric import metric
from warpwatch.dashboard.model.series import Series

CALM = (Recorded(level=1e-5, off=(-0.002, -0.001, 0.0, 0.001, 0.002), spread=((0.999, 1.001, 50),) * 5),)
SUBJECT = "rope: @org/all | <img src=x> [here](https://example.org)"


def _report(asv_output: str = "") -> BisectReport:
    """A report on 16 commits: from the eleventh on 3 % slower; the thirteenth does not build."""
    levels = [math.log1p(0.03) * (index >= 11) for index in range(17)]
    bench = SimulatedBench(
        pool=CALM, levels=levels, broken=frozenset({13}), world=World(name=""), rng=np.random.default_rng(1)
    )
    done = search(
        bench,
        lambda: np.ones(16),
        ExpectedNoise(sigma=0.002, df=4),
        SearchSettings(budget_s=math.inf),
        skipped={13},
        clock=lambda: bench.seconds,
    )
    commits = tuple(
        RangeCommit(
            hash=f"{index:08x}" + "c" * 32, parents=("a" * 40,), author="Ann *", subject=SUBJECT, paths=frozenset()
        )
        for index in range(17)
    )
    series = Series(
        key="0" * 16,
        project="p",
        benchmark="b.Rope.track_latency",
        parameters=(("mode", "a`b"),),
        metric=metric("latency", "seconds"),
        machine="m",
        environment="",
        workload=None,
        implementation=None,
        is_baseline=False,
        listed=True,
    )
    return BisectReport(series=series, commits=commits, search=done, asv_output=asv_output)


def test_the_table_has_subject_and_author_unchanged() -> None:
    assert f"0000000b “{SUBJECT}” by Ann * caused +3" in as_table(_report())


def test_the_table_quotes_the_last_line_of_a_build_that_failed() -> None:
    assert "of the last: error: # <b>no</b>" in as_table(_report(asv_output="error:\n\n# <b>no</b>"))

"""What a bisect tells in words; real ones are in tests/end_to_end/test_bisect.py."""

import math

import numpy as np

from tools.bisect_trial import SimulatedBench, World
from tools.gate_trial import Recorded
from warpwatch.ci.bisect.bisect_loop import SearchSettings, search
from warpwatch.ci.bisect.bisect_report import BisectReport, as_markdown, as_table
from warpwatch.ci.bisect.commit_range import RangeCommit
from warpwatch.ci.bisect.measured_runs import ExpectedNoise
from warpwatch.dashboard.model.metric import metric
from warpwatch.dashboard.model.series import Series

CALM = (Recorded(level=1e-5, off=(-0.002, -0.001, 0.0, 0.001, 0.002), spread=((0.999, 1.001, 50),) * 5),)
SUBJECT = "rope: @org/all | <img src=x> [here](https://example.org)"


def _report(asv_output: str = "") -> BisectReport:
    """Of 16 commits whose eleventh is 3 % slower, and whose thirteenth does not build."""
    levels = [math.log1p(0.03) * (place >= 11) for place in range(17)]
    bench = SimulatedBench(
        pool=CALM, levels=levels, broken=frozenset({13}), world=World(name=""), rng=np.random.default_rng(1)
    )
    done = search(
        bench,
        lambda: np.ones(16),
        ExpectedNoise(scale=0.002, df=4),
        SearchSettings(budget_s=math.inf),
        skipped={13},
        clock=lambda: bench.seconds,
    )
    commits = tuple(
        RangeCommit(
            hash=f"{place:08x}" + "c" * 32, parents=("a" * 40,), author="Ann *", subject=SUBJECT, paths=frozenset()
        )
        for place in range(17)
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


def test_the_table_says_subject_and_author_as_they_are() -> None:
    told = as_table(_report())
    assert f"0000000b “{SUBJECT}” by Ann * brought +3" in told


def test_what_others_wrote_is_no_markdown() -> None:
    told = as_markdown(_report(asv_output="error:\n\n# <b>no</b>"))
    cell = SUBJECT.replace("|", "\\|")
    assert told.startswith(f"### warpwatch bisect: 0000000b “`{SUBJECT}`” by `Ann *` brought")
    assert told.count(SUBJECT) + told.count(cell) == told.count(f"`{SUBJECT}`") + told.count(f"`{cell}`")
    assert "``b.Rope.track_latency(a`b)`` on `m`" in told
    assert "of the last: `error: # <b>no</b>`" in told

"""Why a gate stops: every series is decided, the budget or the runs are spent, or futility."""

import math
from collections.abc import Collection
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from tools.gate_trial import PullRequest, Recorded, recorded
from warpwatch.ci.gate.gate_loop import Gate, StopReason, analysis_schedule, run_gate
from warpwatch.dashboard.model.series import Series
from warpwatch.dashboard.model.verdict import Verdict
from warpwatch.dashboard.text.comparison_labels import MAX_RUNS_ADVISED, remark

RECORDED = sorted((Path(__file__).parents[2] / "perf_suite/trials/repeatability-h200").glob("run-*.json.gz"))
CALM, LOUD = (
    tuple(
        Recorded(level=level * (1 + n), off=(-off, 0.0, off / 2, off), spread=((0.999, 1.001, 50),) * 4)
        for n in range(30)
    )
    for level, off in ((1e-5, 0.001), (1e-2, 0.3))
)


class _Counted:
    """A pull request that counts how often each series was measured."""

    def __init__(self, request: PullRequest) -> None:
        self.request = request
        self.runs: dict[str, int] = {one.key: 0 for one in request.series}

    def measure(self, is_head: bool, series: Collection[Series] | None) -> None:
        self.request.measure(is_head, series)
        for one in series or self.request.series:
            self.runs[one.key] += 1


def _gate(request: PullRequest, counted: _Counted, *, threshold: float = 0.02, budget_s: float = math.inf) -> Gate:
    clock = iter(range(0, 100_000, 10))
    return run_gate(
        analysis_schedule(12),
        counted.measure,
        partial(request.check, threshold),
        budget_s=budget_s,
        clock=lambda: float(next(clock)),
    )


def test_a_futile_series_reports_the_runs_that_it_needs() -> None:
    request = PullRequest(LOUD, 3, {}, 0.0, np.random.default_rng(0))
    done = _gate(request, _Counted(request))
    assert done.stopped is StopReason.FUTILITY
    assert done.runs < 12
    open_rows = [row for row in done.comparison.rows if row.verdict is Verdict.INCONCLUSIVE]
    assert open_rows
    for row in open_rows:
        assert row.estimate is not None
        assert row.estimate.runs_needed > 12
        needed = row.estimate.runs_needed
        advice = f"{needed} more runs of each" if needed <= MAX_RUNS_ADVISED else "too noisy to compare"
        assert advice in remark(row)


def test_each_series_is_measured_until_it_is_futile() -> None:
    request = PullRequest(LOUD, 20, {}, 0.0, np.random.default_rng(1))
    counted = _Counted(request)
    done = _gate(request, counted)
    assert done.comparison.count(Verdict.INCONCLUSIVE) == 20
    runs = [count / 2 for count in counted.runs.values()]
    assert min(runs) == 2
    assert sum(runs) < 0.6 * 12 * 20


def test_a_large_change_of_a_noisy_series_is_detected() -> None:
    request = PullRequest(LOUD, 20, {3}, 4.0, np.random.default_rng(3))
    done = _gate(request, _Counted(request))
    verdicts = {row.series.key: row.verdict for row in done.comparison.rows}
    assert verdicts[request.series[3].key] is Verdict.REGRESSED
    assert list(verdicts.values()).count(Verdict.REGRESSED) == 1


def test_noisy_neighbours_do_not_make_a_detectable_series_futile() -> None:
    """Noisy series say little about the noise of others, which then comes from re-runs."""
    pool = recorded(RECORDED)
    request = PullRequest(pool, 40, range(0, 40, 10), 0.03, np.random.default_rng(1), loud=0.1)
    done = _gate(request, _Counted(request))
    verdicts = {row.series.key: row.verdict for row in done.comparison.rows}
    assert [verdicts[request.series[number].key] for number in range(0, 40, 10)] == [Verdict.REGRESSED] * 4


@pytest.mark.parametrize(("budget_s", "end"), [(math.inf, StopReason.DECIDED), (1.0, StopReason.BUDGET)])
def test_the_budget_stops_an_undecided_gate(budget_s: float, end: StopReason) -> None:
    request = PullRequest(CALM, 30, {0}, 0.0205, np.random.default_rng(4))
    done = _gate(request, _Counted(request), threshold=0.002, budget_s=budget_s)
    assert done.stopped is end


def test_the_limit_of_runs_differs_from_futility() -> None:
    request = PullRequest(CALM, 30, {}, 0.0, np.random.default_rng(5))
    done = run_gate(
        analysis_schedule(2), request.measure, partial(request.check, 0.0003), budget_s=math.inf, clock=lambda: 0.0
    )
    assert (done.stopped, done.runs) == (StopReason.RUNS, 2)

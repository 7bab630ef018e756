"""Rows of the overview and the report: the state of each workload and implementation."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from .changepoint import SeriesChange
from .metric import Metric
from .series import Commit, Series, SpeedOfLight, Status
from .verdict import ChangeKind, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineRatio:
    """Speed relative to a baseline in the same run: 1.2 means the baseline's latency is 1.2 times ours."""

    implementation: str
    ratio: float
    series_key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedMetric:
    """A judged series with a recent change, of the same workload and implementation as a latency."""

    series: Series
    value: float | None
    verdict: Verdict
    change: float | None  # relative, signed
    change_commit: Commit | None
    is_across_gpus: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class OverviewRow:
    """One workload x implementation of the overview: its latency, or another judged series."""

    series: Series
    operator: str | None
    value: float | None  # newest commit's median over runs; None when that is not OK
    status: Status
    reason: str | None
    commit: Commit  # newest with any record of the series
    change: float | None  # relative, signed; against the previous segment if there is one within 30 days
    change_commit: Commit | None  # the changepoint behind `change`, or the commit 30 days back
    change_is_step: bool
    change_kind: ChangeKind | None  # of the step; None without a step
    change_q: float | None  # the step's false discovery rate, where that is known
    is_across_gpus: bool  # no GPU measured the step's commit and the one before
    gpus: int | None  # that measured the step's new level, of GPU-adjusted values
    gpu_spread: float | None  # GPU-to-GPU, of a series that several GPUs measured: 95 % of unchanged code is within it
    gpu_references: int | None  # of such a series: what the newest session was compared with
    speed_of_light: SpeedOfLight | None
    baseline: BaselineRatio | None  # the best baseline of the same run
    sparkline: tuple[float | None, ...]
    verdict: Verdict
    newest_run: datetime | None
    other_metrics: tuple[MovedMetric, ...]

    @property
    def was_never_there(self) -> bool:
        """Whether this workload and implementation never ran on the machine, and are not available there."""
        return self.status is Status.UNAVAILABLE and not any(value is not None for value in self.sparkline)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportRow:
    """One workload x implementation at a machine's newest commit."""

    project: str
    machine: str
    environment: str
    commit: Commit
    kernel: str  # the operator, or the benchmark's module where none is known
    benchmark: str
    workload: str
    implementation: str
    is_baseline: bool
    status: Status
    reason: str | None
    latency_s: float | None
    q25_s: float | None
    q75_s: float | None
    sample_count: int | None
    bandwidth_bps: float | None
    flop_rate: float | None
    speed_of_light: SpeedOfLight | None
    ratios: tuple[BaselineRatio, ...]  # against each baseline of the same run
    run: str
    run_time: datetime | None
    backend: str | None  # the one PyTorch took, where recorded


class RowState(StrEnum):
    """A verdict, or why there is none yet; the most urgent first."""

    REGRESSED = "regressed"
    STOPPED = "stopped"  # no longer measured while its machine is
    INVALID = "invalid"
    UNJUDGED = "unjudged"  # changed; classification pending
    IMPROVED = "improved"
    NOT_SIGNIFICANT = "not-significant"  # a step with q > 0.05
    UNCHANGED = "unchanged"
    FEW_REFERENCES = "few-references"  # too few references to estimate how its GPU differs from the others
    NEW = "new"  # too few commits
    MISSING = "missing"


def trend_state(change: float, values: Sequence[float | None], metric: Metric) -> RowState:
    """Direction of `change`, the sum of all steps, if the newest value differs from the oldest in this direction."""
    known = [value for value in values if value is not None]
    if len(known) < 2 or change * (known[-1] - known[0]) <= 0:
        return RowState.UNCHANGED
    return RowState.REGRESSED if metric.is_worse(change) else RowState.IMPROVED


_OF_VERDICT = {
    Verdict.REGRESSED: RowState.REGRESSED,
    Verdict.INVALID: RowState.INVALID,
    Verdict.IMPROVED: RowState.IMPROVED,
    Verdict.UNCHANGED: RowState.UNCHANGED,
    Verdict.MISSING: RowState.MISSING,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class OverviewEntry:
    """An overview row with its state.

    `month` and `year`: total change of the steps in the 30 and 365 days before the newest commit, GPU-adjusted or
    within one GPU, without the machine's part. 0.0 is no step.
    """

    row: OverviewRow
    is_stopped: bool
    gpu: str | None  # the physical GPU of the newest run
    gpu_commits: int  # measured by this GPU under the machine's name
    month: float
    year: float
    since: datetime  # the machine's first data
    decline: SeriesChange | None = None  # within a year, in small steps (analysis/slow_decline.py)

    @property
    def state(self) -> RowState:
        if self.is_stopped:
            return RowState.STOPPED
        if self.row.verdict is not Verdict.INCONCLUSIVE:
            return _OF_VERDICT[self.row.verdict]
        if self.row.change_kind is not None:
            return RowState.NOT_SIGNIFICANT if self.row.change_kind is ChangeKind.NOT_SIGNIFICANT else RowState.UNJUDGED
        is_elsewhere = self.gpu is not None and self.numbers > self.gpu_commits
        return RowState.FEW_REFERENCES if is_elsewhere and self.numbers > 1 else RowState.NEW

    @property
    def trend_state(self) -> RowState:
        """Direction of the sparkline."""
        return trend_state(self.year, self.row.sparkline, self.row.series.metric)

    @property
    def states(self) -> frozenset[RowState]:
        return frozenset({self.state, *(_OF_VERDICT[other.verdict] for other in self.row.other_metrics)})

    @property
    def is_across_gpus(self) -> bool:
        """Whether its state is that of a step across GPUs."""
        return self.row.is_across_gpus and self.state in {RowState.REGRESSED, RowState.IMPROVED}

    def is_across_gpus_as(self, state: RowState) -> bool:
        """Whether all of its metrics in this state, one or more, are so across GPUs."""
        found = [other.is_across_gpus for other in self.row.other_metrics if _OF_VERDICT[other.verdict] is state]
        found += [self.is_across_gpus] if self.state is state else []
        return bool(found) and all(found)

    @property
    def numbers(self) -> int:
        """Number of the newest 40 commits that have a number, on any GPU."""
        return sum(value is not None for value in self.row.sparkline)

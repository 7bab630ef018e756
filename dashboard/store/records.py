"""What the store hands to pages, reports, checks and alerts: frozen records, SI units, unscaled values."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Self

from warpwatch.dashboard.metrics import Metric
from warpwatch.dashboard.statistics.change_kind import ChangeKind
from warpwatch.dashboard.statistics.growth import growth
from warpwatch.dashboard.statistics.machine_state import Control
from warpwatch.dashboard.verdict import Verdict


class Status(StrEnum):
    """Whether a recorded point is a number, and if not, why not."""

    OK = "ok"
    INVALID = "invalid"  # measured, not to be trusted: throttled, say
    FAILED = "failed"  # an exception, a crash, a time limit
    WRONG = "wrong result"  # the correctness gate refused it
    UNAVAILABLE = "unavailable"  # this machine or commit has no such thing
    UNCHANGED = "unchanged"  # not measured, on request: its machine code is that of a commit measured before


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """One asv project in the store."""

    name: str
    repository: str | None  # path of the git repository its history was read from
    machines: int
    series: int
    commits: int
    newest_commit: datetime | None
    newest_run: datetime | None
    unanalysed: int = 0  # series with values that the analysis has not seen, or that other rules than today's told of
    unjudged: int = 0  # machines with findings that have not been judged together
    commit_url: str | None = None  # a commit's full hash is put behind it, and it is read there


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """A commit that has results. Without a repository only hash and date are known."""

    hash: str
    date: datetime
    subject: str | None
    author: str | None
    position: int  # place in the project's order of commits that have results
    unmeasured_before: int | None  # commits without results since the one before; None without a repository
    parents: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Operator, shape and dtype behind a benchmark's `workload` parameter, with the work it must do."""

    benchmark: str  # without the method: "benchmarks.rope.Rope"
    operator: str
    name: str
    dtype: str
    flops: float
    bytes: float
    parameters: Mapping[str, Any]
    kernels: tuple[str, ...]  # implementations of ours
    baselines: tuple[str, ...]  # the rivals measured in the same run
    controls: tuple[str, ...] = ()  # canaries


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedOfLight:
    """The shortest latency that a machine allows as a share of the measured one; None where that limit is unknown."""

    of_peak: float | None  # against the datasheet
    of_ceiling: float | None  # against what was measured on this machine

    @property
    def share(self) -> float | None:
        """The one to show where there is room for one: of the peak, else of the ceiling."""
        return self.of_peak if self.of_peak is not None else self.of_ceiling

    @property
    def of(self) -> str:
        """What `share` is a share of."""
        return "of peak" if self.of_peak is not None else "of ceiling"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfiledKernel:
    """One kernel of a profiled call; None where the GPU has no such counter."""

    name: str
    signature: str | None  # with its template arguments
    duration_s: float | None
    dram_bytes: float | None
    l2_bytes: float | None
    l1_bytes: float | None
    occupancy: float | None  # achieved, as a share of the warps an SM can hold
    tensor_pipe: float | None  # share of the cycles in which it was busy
    stalls: tuple[tuple[str, float], ...]  # warps that waited, by reason, an issued instruction; the most first


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What a profiler counted of one workload x implementation. No latency: it slows what it watches."""

    commit: Commit
    run: str
    profiler: str  # "Nsight Compute 2025.3.1"
    dram_bytes: float | None  # of all kernels together
    kernels: tuple[ProfiledKernel, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Project x benchmark x parameters x metric x machine x environment. `key` is stable and goes into URLs."""

    key: str  # 16 hex digits of the identity's hash: the same in every store
    project: str
    benchmark: str  # asv's full name
    parameters: tuple[tuple[str, str], ...]  # (name, value) in asv's order, quotes of strings removed
    metric: Metric
    machine: str
    environment: str
    workload: str | None  # the parameter of that name, where there is one
    implementation: str | None
    is_baseline: bool  # a rival's: measured beside ours, and changed by no commit of the project
    listed: bool  # still in the project's benchmarks.json
    is_control: bool = False  # a canary's: fixed work of the suite, which tells of the machine alone
    is_asvs: bool = True  # measured by asv, not by another tool whose file was imported

    @property
    def is_watched(self) -> bool:
        """Whether it is ours, so that its changes are the project's."""
        return not self.is_baseline and not self.is_control

    @property
    def suite(self) -> str:
        """The benchmark without its method: "benchmarks.rope.Rope"."""
        return self.benchmark.rpartition(".")[0]

    def measures_the_same(self, other: Self) -> bool:
        """Whether the two differ in their implementation alone."""
        mine, others = ((x.benchmark, x.case, x.metric, x.machine, x.environment) for x in (self, other))
        return mine == others

    @property
    def case(self) -> tuple[str, ...]:
        """What is measured, by whichever implementation: the other parameters' values."""
        return tuple(value for name, value in self.parameters if name != "implementation")

    @property
    def title(self) -> str:
        """Benchmark and parameter values on one line."""
        values = ", ".join(value for _, value in self.parameters)
        return f"{self.benchmark}({values})" if values else self.benchmark


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One value of a series: one commit, one run. `value` is None unless the status is OK."""

    commit: Commit
    value: float | None
    q25: float | None
    q75: float | None
    sample_count: int | None
    status: Status
    reason: str | None
    run: str
    run_time: datetime | None
    card: str | None = None  # the physical GPU


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlShare:
    """How much of a change the machine's controls did too: 1 is all of it."""

    control: Control
    value: float
    low: float  # 95 %
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Magnitude:
    """A relative change with its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesChange:
    """A changepoint of a series, or an episode: a transient, a stay in another state of the machine, a drift.

    `index` counts the commits of the series that have a number.
    """

    index: int  # first commit of the new level
    commit: Commit
    previous_commit: Commit  # last measured commit of the old level
    range_start: Commit  # with 95 % the change came after this commit; of an episode, the commit before it
    range_end: Commit  # and by this one; of an episode, its last
    before: float
    after: float
    magnitude: float  # after / before - 1
    low: float  # interval of the magnitude, 95 %
    high: float
    p_value: float
    is_worse: bool
    kind: ChangeKind = ChangeKind.STEP
    chance: float | None = None  # of as much anywhere in a series without a change; None of an episode
    posterior: tuple[tuple[Commit, float], ...] = ()  # the range's commits, and how likely each is the first
    share: ControlShare | None = None  # None: no control could tell
    q_value: float | None = None  # among all series of its run; None: not judged, or not yet
    below_limit: float | None = None  # of a step too small to count by what the project states: the least that would

    @property
    def without_machine(self) -> Magnitude | None:
        """The change with the machine's part taken out, where its controls surely moved, with it or against it.

        None where other series speak for the machine: they may share what the commit changed.
        """
        if self.share is None or self.share.control is Control.OTHERS or self.magnitude <= -1:
            return None
        if self.share.low <= 0 <= self.share.high:
            return None
        whole = math.log1p(self.magnitude)
        value, *ends = (growth(whole * (1 - part)) for part in (self.share.value, self.share.low, self.share.high))
        return Magnitude(value=value, low=min(ends), high=max(ends))


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """A series with everything its page draws."""

    series: Series
    points: tuple[Point, ...]  # by commit, then run time
    changes: tuple[SeriesChange, ...]  # of the level: steps, and what the machine moved
    workload: Workload | None
    others: tuple["OtherHistory", ...]  # the workload's other implementations: rivals and twins of ours
    canaries: tuple["OtherHistory", ...] = ()  # of the same machine and environment
    profile: Profile | None = None  # the newest of this workload and implementation on this machine
    episodes: tuple[SeriesChange, ...] = ()  # what no commit is accused of


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherHistory:
    """Another series of the same machine and environment, told beside: a rival's, a twin's of ours, or a canary's."""

    series: Series
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineRatio:
    """How often faster than a rival in the same run: 1.2 means the rival's latency is 1.2 times ours."""

    implementation: str
    ratio: float
    series_key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """A judged series whose level moved of late, told beside the latency of the same workload and implementation."""

    series: Series
    value: float | None
    verdict: Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class OverviewRow:
    """One workload x implementation as the overview shows it: its latency, or a judged series of its own."""

    series: Series
    operator: str | None
    value: float | None  # newest commit's median over runs; None when that is not OK
    status: Status
    reason: str | None
    commit: Commit  # newest with any record of the series
    change: float | None  # relative, signed; against the previous segment if there is one within 30 days
    change_commit: Commit | None  # the changepoint behind `change`, or the commit 30 days back
    change_is_step: bool
    change_kind: ChangeKind | None  # of the step; None where there is none
    change_q: float | None  # the step's false discovery rate, where that is known
    speed_of_light: SpeedOfLight | None
    baseline: BaselineRatio | None  # the best rival of the same run
    sparkline: tuple[float | None, ...]
    verdict: Verdict
    newest_run: datetime | None
    beside: tuple[Moved, ...]  # other judged metrics of the same measurement that moved another way than this

    @property
    def was_never_there(self) -> bool:
        """Whether this machine has no such thing: of every workload and implementation some do not go together."""
        return self.status is Status.UNAVAILABLE and not any(value is not None for value in self.sparkline)


@dataclass(frozen=True, slots=True, kw_only=True)
class Regression:
    """A change for the worse, with its series."""

    series: Series
    change: SeriesChange
    counts: bool = True  # by the limits that the project states


@dataclass(frozen=True, slots=True, kw_only=True)
class RegressionGroup:
    """Series that got worse at the same commit on the same machine, the largest first."""

    project: str
    machine: str
    commit: Commit
    previous_commit: Commit
    regressions: tuple[Regression, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledCode:
    """What the compiler made of one kernel for one architecture at one commit."""

    operator: str
    kernel: str
    architecture: str
    registers: int | None
    stack_bytes: int | None
    shared_bytes: int | None
    local_memory_instructions: int | None
    code_bytes: int | None
    instructions: Mapping[str, int]
    sha256: str | None
    implementation: str | None
    dynamic_shared_bytes: int | None
    barriers: int | None
    occupancy: float | None  # theoretical: share of an SM's warps
    occupancy_limit: str | None  # what allows no more


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitPoint:
    """A series' value at the page's commit beside the one before."""

    series: Series
    value: float | None
    status: Status
    reason: str | None
    previous: float | None  # at the newest earlier commit with a number
    previous_commit: Commit | None
    runs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitPage:
    """Everything recorded at one commit."""

    project: str
    commit: Commit
    older: Commit | None  # neighbours in the project's order
    newer: Commit | None
    points: tuple[CommitPoint, ...]
    changes: tuple[Regression, ...]  # changepoints at this commit: what is judged first, then worse before better
    compiled: tuple[CompiledCode, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportRow:
    """One workload x implementation at a machine's newest commit."""

    project: str
    machine: str
    environment: str
    commit: Commit
    operator: str
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
    ratios: tuple[BaselineRatio, ...]  # against each rival of the same run
    run: str
    run_time: datetime | None
    backend: str | None  # the one PyTorch took, where recorded


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesPage:
    """One page of a series search."""

    total: int
    series: tuple[Series, ...]
    latest: Mapping[str, float | None] = field(default_factory=dict)  # by series key


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """What a run recorded about its machine and software, and about taking one value; empty where nothing was."""

    run: str
    started_at: datetime | None
    gpu: Mapping[str, Any]
    cpu: Mapping[str, Any]
    software: Mapping[str, Any]
    measuring: Mapping[str, Any]  # clocks, temperature, cache, backend, error of this workload x implementation

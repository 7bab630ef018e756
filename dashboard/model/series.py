"""Projects, commits, workloads, series, and their points."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Self

from .metric import Metric

UNORDERED_POSITION = 2**31  # of a commit that is not ordered yet, after all others


class Status(StrEnum):
    """Status of a recorded point."""

    OK = "ok"
    INVALID = "invalid"  # measured, but throttled or contended
    FAILED = "failed"  # an exception, a crash, a time limit
    WRONG = "wrong result"  # refused by the correctness gate
    UNAVAILABLE = "unavailable"  # does not exist on this machine or commit
    UNCHANGED = "unchanged"  # not measured, as its machine code is that of a commit measured before


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
    unanalysed: int = 0  # series with new values, or analysed by another version
    unjudged: int = 0  # machines with unclassified findings
    commit_url: str | None = None  # address of commits, without the hash


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """A commit that has results. Without a repository only hash and date are known."""

    hash: str
    date: datetime
    subject: str | None
    author: str | None
    position: int  # index in the project's order of commits that have results, or UNORDERED_POSITION
    unmeasured_before: int | None  # commits without results since the one before; None without a repository
    parents: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Operator, shape and dtype of a benchmark's `workload` parameter, with its FLOP and bytes."""

    benchmark: str  # without the method: "benchmarks.rope.Rope"
    operator: str
    name: str
    dtype: str
    flops: float
    bytes: float
    parameters: Mapping[str, Any]
    kernels: tuple[str, ...]  # implementations of ours
    baselines: tuple[str, ...]  # measured in the same run
    controls: tuple[str, ...] = ()  # canaries


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedOfLight:
    """The shortest possible latency as a share of the measured one; None without the limit."""

    of_peak: float | None  # by the datasheet
    of_ceiling: float | None  # by the measured ceiling

    @property
    def share(self) -> float | None:
        """Of the peak, else of the ceiling."""
        return self.of_peak if self.of_peak is not None else self.of_ceiling

    @property
    def of(self) -> str:
        """Which limit `share` refers to."""
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
    stalls: tuple[tuple[str, float], ...]  # waiting warps per issued instruction, by reason; the most first


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A profiler's counters of one workload x implementation; no latency, as profiling slows down."""

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
    workload: str | None  # the parameter of that name, if any
    implementation: str | None
    is_baseline: bool  # not changed by commits of the project
    listed: bool  # still in the project's benchmarks.json
    is_control: bool = False  # a canary
    is_from_asv: bool = True  # not imported from another tool's file

    @property
    def is_ours(self) -> bool:
        """Whether commits of the project change it: neither baseline nor canary."""
        return not self.is_baseline and not self.is_control

    @property
    def suite(self) -> str:
        """The benchmark without its method: "benchmarks.rope.Rope"."""
        return self.benchmark.rpartition(".")[0]

    def measures_the_same(self, other: Self) -> bool:
        """Whether both differ at most in their implementation."""
        first, second = ((x.benchmark, x.case, x.metric, x.machine, x.environment) for x in (self, other))
        return first == second

    @property
    def case(self) -> tuple[str, ...]:
        """Values of all parameters but the implementation."""
        return tuple(value for name, value in self.parameters if name != "implementation")

    @property
    def title(self) -> str:
        """Benchmark and parameter values on one line."""
        values = ", ".join(value for _, value in self.parameters)
        return f"{self.benchmark}({values})" if values else self.benchmark


Workloads = Mapping[tuple[str, str], Workload]
"""By suite and name, as `queries.project_workloads` gives them."""


def workload_of(series: Series, workloads: Workloads) -> Workload | None:
    """The workload of a series; None if unknown."""
    return workloads.get((series.suite, series.workload)) if series.workload else None


def is_main(series: Series, workloads: Workloads) -> bool:
    """Whether the series is of the project's main implementation: the first kernel that the workload names."""
    workload = workload_of(series, workloads)
    return series.is_ours and (workload is None or series.implementation in {None, *workload.kernels[:1]})


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
    gpu: str | None = None  # UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Recorded facts about a run's machine and software, and about measuring one value; empty if none."""

    run: str
    started_at: datetime | None
    gpu: Mapping[str, Any]
    cpu: Mapping[str, Any]
    software: Mapping[str, Any]
    measuring: Mapping[str, Any]  # clocks, temperature, cache, backend, error of this workload x implementation

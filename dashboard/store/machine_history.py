"""What the store tells of a machine over time: its series' runs in columns, and the conditions that each run noted."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from warpwatch.dashboard.store.columns import Floats, Ints
from warpwatch.dashboard.store.records import Series, Status


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SeriesRuns:
    """The runs of a series of judged times that have a number, by commit, then by run."""

    series: Series
    commit: Ints  # ids
    value: Floats
    started_ms: Ints  # -1: not known
    card: Ints  # place in the machine's cards from one on; 0: not known
    spread: Floats  # of a run's samples: the distance of their quartiles; NaN: not known
    count: Ints  # of samples; -1: not known
    code: Mapping[int, str]  # the machine code that a commit ran, where it is known


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How many measurements of a machine ended so. An empty reason: a number."""

    status: Status
    reason: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MachineHistory:
    """The judged times of a machine at the project's newest commits, rivals and canaries among them."""

    series: tuple[SeriesRuns, ...]
    outcomes: tuple[Outcome, ...]  # the most frequent first
    commits: int  # of the newest that were looked at
    missing_commits: int  # measured elsewhere between this machine's first and last, and not here
    unmeasured_commits: int | None  # of the repository, between those with results; None without a repository


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConditions:
    """What one run noted of its GPU, over the measurements that it took."""

    run: str
    started_at: datetime | None
    card: str | None
    measurements: int
    clock_hz: float | None  # median over measurements, of each the median of its samples
    clock_low_hz: float | None
    clock_high_hz: float | None
    temperature_c: float | None  # median
    temperature_high_c: float | None
    power_limit_w: float | None
    throttled_s: Mapping[str, float]  # by reason, while measuring; empty where none was, or it was not noted
    throttled: int  # measurements with a throttling bit of NVML's or with time throttled
    knows_throttling: bool  # whether any measurement noted bits or times


@dataclass(frozen=True, slots=True, kw_only=True)
class Software:
    """A stretch of runs with the same card, driver and libraries; "" where a run did not say."""

    since: datetime | None
    until: datetime | None
    runs: int
    facts: tuple[tuple[str, str], ...]  # ("driver", "580.65.06"), ...
    changed: tuple[str, ...]  # what differs from the stretch before

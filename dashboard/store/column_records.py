"""Columnar records: the measurements of a series, and the runs of a machine."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from ..model.series import Series, Status
from ..model.verdict import Verdict
from .chunks import Floats, Ints
from .commit_index import CommitIndex


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SeriesRuns:
    """The runs with a number of a series of judged times, by commit, then by run."""

    series: Series
    commit: Ints  # ids
    value: Floats
    started_ms: Ints  # -1: unknown
    gpu: Ints  # number of the GPU, from one; 0: unknown
    spread: Floats  # interquartile range of a run's samples; NaN: unknown
    count: Ints  # of samples; -1: unknown
    code: Mapping[int, str]  # hash of the machine code by commit id, if known


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasonCount:
    """Number of measurements of a machine with a status and reason; empty reason: a number."""

    status: Status
    reason: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MachineHistory:
    """The judged times of a machine at the project's newest commits, with baselines and canaries."""

    series: tuple[SeriesRuns, ...]
    outcomes: tuple[ReasonCount, ...]  # the most frequent first
    commits: int  # number of newest commits considered
    missing_commits: int  # measured elsewhere between this machine's first and last commit
    unmeasured_commits: int | None  # in the repository between commits with results; None without a repository
    index: CommitIndex


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConditions:
    """Conditions of one run's GPU over its measurements."""

    run: str
    started_at: datetime | None
    gpu: str | None  # UUID
    measurements: int
    clock_hz: float | None  # median over measurements, of each the median of its samples
    clock_low_hz: float | None
    clock_high_hz: float | None
    temperature_c: float | None  # median
    temperature_high_c: float | None
    power_limit_w: float | None
    throttled_s: Mapping[str, float]  # seconds by reason while measuring; empty: none, or not recorded
    throttled: int  # measurements with a throttling bit of NVML or throttled time
    knows_throttling: bool  # any measurement recorded bits or times


@dataclass(frozen=True, slots=True, kw_only=True)
class Software:
    """Consecutive runs with the same GPU, driver and libraries; "": not recorded."""

    since: datetime | None
    until: datetime | None
    runs: int
    facts: tuple[tuple[str, str], ...]  # ("driver", "580.65.06"), ...
    changed: tuple[str, ...]  # names of the facts that differ from the period before


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TextColumn:
    """A dictionary-encoded column of texts: `words[code]` for each row, None for -1."""

    codes: Ints
    words: Sequence[str]

    def texts(self) -> list[str | None]:
        words = (*self.words, None)
        return [words[code] for code in self.codes.tolist()]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Measured:
    """The measurements of a series by commit, then by run, in columns: a record for each is too slow for millions."""

    series: Series
    commit: TextColumn  # full hash
    date_ms: Ints  # of the commit
    position: Ints  # of the commit in the project's order
    run: TextColumn
    started_ms: Ints  # start of the run; -1: unknown
    gpu: TextColumn  # UUID of the GPU
    value: Floats  # NaN unless the status is ok
    q25: Floats  # NaN: unknown
    q75: Floats
    sample_count: Ints  # -1: unknown
    adjusted_value: Floats  # as the newest GPU and software would have measured; NaN: unknown, or of one GPU
    status: TextColumn
    reason: TextColumn
    gpu_spread: float | None  # of the series: 95 % of unchanged code differ by less between GPUs
    verdict: Verdict | None  # of the series at its newest commit; None if it is not judged

    def __len__(self) -> int:
        return len(self.value)

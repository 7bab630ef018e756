"""Records in columns: the measurements of a series, and the runs of a machine."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from ..model.series import Series, Status
from .chunks import Floats, Ints


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


# A series with all that was recorded of it, in columns: a record a measurement would be too slow for millions.


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TextColumn:
    """A column of texts of which there are few: `words[place]` for each row, nothing where the place is -1."""

    places: Ints
    words: Sequence[str]

    def texts(self) -> list[str | None]:
        """The text of each row."""
        known = (*self.words, None)
        return [known[place] for place in self.places.tolist()]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Measured:
    """The measurements of a series by commit, then by run. Every column has a place for each."""

    series: Series
    commit: TextColumn  # full hash
    date_ms: Ints  # when it was committed
    position: Ints  # of the commit in the project's order
    run: TextColumn
    started_ms: Ints  # when the run began; -1: not known
    card: TextColumn  # UUID of the GPU
    value: Floats  # NaN unless the status is ok
    q25: Floats  # NaN: not known
    q75: Floats
    sample_count: Ints  # -1: not known
    status: TextColumn
    reason: TextColumn

    def __len__(self) -> int:
        return len(self.value)

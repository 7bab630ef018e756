"""What the store tells of machines: what they can do at most, their cards and canaries, the roof over their kernels."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from warpwatch.dashboard.store.records import Commit, Profile, Series, SeriesChange, SpeedOfLight, Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceilings:
    """What memory and math units can do at most, by one source."""

    name: str
    source: str  # "datasheet" or "measured"
    bandwidth_bps: float
    flops: Mapping[str, float]  # dtype -> FLOP/s
    note: str | None = None  # what is uncertain about them
    l2_bandwidth_bps: float | None = None
    measured_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Both answers to what a machine can do; None where nobody said or measured."""

    peaks: Ceilings | None  # the datasheet's
    measured: Ceilings | None  # by `python -m perf_suite calibrate`, on this very GPU

    @property
    def known(self) -> tuple[Ceilings, ...]:
        """Those that are there, the datasheet's first."""
        return tuple(each for each in (self.peaks, self.measured) if each is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """One physical GPU that measured under a machine's name."""

    uuid: str
    runs: int
    newest_run: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """One of a canary's visits within a run."""

    at_s: float  # since the run began
    latency_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Canary:
    """A canary of a machine as it stands: what it shows moved, moved in the machine."""

    series: Series
    value: float | None
    sparkline: tuple[float | None, ...]
    last_change: SeriesChange | None
    run_time: datetime | None  # of the newest run
    visits: tuple[Visit, ...]  # within it

    @property
    def spread(self) -> float | None:
        """How far the visits of the newest run lie apart, relative to the smallest; None for fewer than two."""
        latencies = [visit.latency_s for visit in self.visits]
        return max(latencies) / min(latencies) - 1 if len(latencies) > 1 and min(latencies) > 0 else None

    @property
    def drift(self) -> float | None:
        """From the first visit of the newest run to its last, relative; None for fewer than two."""
        if len(self.visits) < 2 or not self.visits[0].latency_s:
            return None
        return self.visits[-1].latency_s / self.visits[0].latency_s - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class EqualCodePair:
    """The same machine code measured by two runs that follow each other on one card: an A/A pair."""

    machine: str
    environment: str
    suite: str
    workload: str
    implementation: str
    code_sha256: str
    first_commit: str  # hashes; the same for two runs of one commit
    second_commit: str
    first_s: float  # latencies
    second_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A machine that recorded results, and how old the newest of them are."""

    name: str
    gpu: str | None
    cpu: str | None
    details: Mapping[str, str]  # asv's machine.json
    limits: Limits
    cards: tuple[Card, ...]  # the newest first; empty where no run named one
    runs: int
    newest_run: datetime | None
    newest_commit: Commit | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RooflinePoint:
    """One workload x implementation on a machine's roofline, at its newest commit."""

    series: Series  # the latency series
    workload: Workload
    implementation: str
    latency_s: float
    intensity: float  # FLOP/byte, over the least bytes that must move
    flop_rate: float  # FLOP/s
    bandwidth_bps: float
    speed_of_light: SpeedOfLight
    commit: Commit
    profile: Profile | None  # the newest of this machine, which may be of an older commit
    card: str | None = None  # the physical GPU that measured it
    ceilings: Ceilings | None = None  # as measured on that card: what its share of the ceiling is of
    trail: tuple[float, ...] = ()  # latencies at the last commits that have one, the newest last, s

    @property
    def measured_intensity(self) -> float | None:
        """FLOP/byte over the bytes that a profiler saw move through DRAM."""
        moved = self.profile.dram_bytes if self.profile else None
        return self.workload.flops / moved if moved else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Roofline:
    """One machine's limits and the points under them."""

    machine: Machine
    points: tuple[RooflinePoint, ...]

    @property
    def measured(self) -> tuple[tuple[str | None, Ceilings], ...]:
        """The ceilings that the points are shares of, each with its card; the machine's newest where none has any."""
        found: list[tuple[str | None, Ceilings]] = []
        for point in self.points:
            if point.ceilings is not None and (point.card, point.ceilings) not in found:
                found.append((point.card, point.ceilings))
        newest = self.machine.limits.measured
        return tuple(found) if found or newest is None else ((None, newest),)

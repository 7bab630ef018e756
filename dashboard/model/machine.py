"""Machines: GPUs, ceilings, canaries, and the roofline over their kernels."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from .changepoint import SeriesChange
from .quantities import quantity
from .series import Commit, Profile, Series, SpeedOfLight, Workload


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


# A machine's facts as asv's machine.json has them, which anybody may have written by hand: GPU, memory, Python.

_GPU_KEYS = frozenset({"gpu", "gpus", "gpu_name", "gpu_model", "gpu name", "gpu model"})
_NOT_SHOWN = frozenset({"machine", "version", "cpu", *_GPU_KEYS})
_LABELS = {"os": "Operating system", "arch": "Architecture", "num_cpu": "CPUs", "ram": "Memory", "python": "Python"}
_BYTES = {"k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}
_SIZE = re.compile(r"([0-9.]+)\s*([kmgt])(i?)b?", re.IGNORECASE)


def gpu_of(details: Mapping[str, str]) -> str | None:
    """The GPU's name; no word in it twice in a row, as in "NVIDIA NVIDIA L40S"."""
    told = next((said for name, said in details.items() if name.lower() in _GPU_KEYS and said.strip()), None)
    return re.sub(r"\b(\w+)(\s+\1\b)+", r"\1", told.strip(), flags=re.IGNORECASE) if told else None


def further_facts(details: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Label and text of everything but the names of GPU and CPU."""
    for name, said in details.items():
        if not said or name.lower() in _NOT_SHOWN:
            continue
        label = _LABELS.get(name.lower(), name.replace("_", " ").capitalize() if name.islower() else name)
        if name.lower() == "python" and re.search(r"[/\\]", said):
            label = "Python’s path"
        yield label, _memory(said, details) if name.lower() == "ram" else said


def _memory(said: str, details: Mapping[str, str]) -> str:
    """In one unit, however it was written: asv's own is a number of KiB on Linux."""
    if said.isdecimal() and details.get("os", "").startswith("Linux"):
        return quantity(int(said) * 1024, "bytes")
    found = _SIZE.fullmatch(said.strip())
    if found is None:
        return said
    number, prefix, binary = found.groups()
    factor = 1024.0 ** ("kmgt".index(prefix.lower()) + 1) if binary else _BYTES[prefix.lower()]
    return quantity(float(number) * factor, "bytes") if number.count(".") < 2 else said


# The roofline: how fast a machine could do a workload at best, and how near a latency comes to that.
#
# Williams, Waterman and Patterson, "Roofline: an insightful visual performance model" (CACM 52:4, 2009). Memory
# traffic and arithmetic are assumed to overlap perfectly, so a latency below the bound means the bytes did not come
# from memory.


def bound_s(workload: Workload, ceilings: Ceilings) -> float | None:
    """Shortest latency the ceilings allow: the larger of bytes / bandwidth and FLOPs / peak of the dtype.

    None if they name no peak for the dtype and the workload computes anything, or allow no bound at all.
    """
    peak = ceilings.flops.get(workload.dtype)
    if not peak and workload.flops:
        return None
    memory_s = workload.bytes / ceilings.bandwidth_bps if ceilings.bandwidth_bps else 0.0
    compute_s = workload.flops / peak if peak else 0.0
    return max(memory_s, compute_s) or None


def bound_by_memory(workload: Workload, limits: Limits) -> bool | None:
    """Whether memory bounds it rather than the math units; None where no peak of its dtype is known."""
    for ceilings in limits.known:
        peak = ceilings.flops.get(workload.dtype)
        if peak and ceilings.bandwidth_bps:
            return workload.bytes / ceilings.bandwidth_bps >= workload.flops / peak
    return None


def roofline_shares(workload: Workload, limits: Limits, latency_s: float) -> tuple[float, float]:
    """Memory traffic and arithmetic as shares of the latency, each by itself; 0 where the peak is not known."""
    for ceilings in reversed(limits.known):  # as measured rather than as promised
        peak = ceilings.flops.get(workload.dtype)
        memory_s = workload.bytes / ceilings.bandwidth_bps if ceilings.bandwidth_bps else 0.0
        compute_s = workload.flops / peak if peak else 0.0
        if memory_s or compute_s:
            return memory_s / latency_s, compute_s / latency_s
    return 0.0, 0.0


def speed_of_light(workload: Workload, limits: Limits, latency_s: float) -> SpeedOfLight | None:
    """Both bounds as shares of the latency: 1 is as fast as the machine can. None if there is neither."""
    found = SpeedOfLight(
        of_peak=_share(workload, limits.peaks, latency_s), of_ceiling=_share(workload, limits.measured, latency_s)
    )
    return found if found.share is not None else None


def _share(workload: Workload, ceilings: Ceilings | None, latency_s: float) -> float | None:
    bound = bound_s(workload, ceilings) if ceilings else None
    return bound / latency_s if bound and latency_s > 0 else None

"""Machines: GPUs, ceilings, canaries, and the roofline over their kernels."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from .changepoint import SeriesChange
from .quantities import quantity
from .series import Commit, Profile, Series, SpeedOfLight, Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceilings:
    """Largest bandwidth and throughput of a machine, by one source."""

    name: str
    source: str  # "datasheet" or "measured"
    bandwidth_bps: float
    flops: Mapping[str, float]  # dtype -> FLOP/s
    note: str | None = None  # what is uncertain about them
    l2_bandwidth_bps: float | None = None
    measured_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HardwareLimits:
    """Peaks and ceilings of a machine; None if unknown."""

    peaks: Ceilings | None  # the datasheet's
    measured: Ceilings | None  # by `warpbench calibrate` on this GPU

    @property
    def known(self) -> tuple[Ceilings, ...]:
        """The known ones, the datasheet's first."""
        return tuple(each for each in (self.peaks, self.measured) if each is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
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
    """Current state of a canary; its changes are the machine's."""

    series: Series
    value: float | None
    sparkline: tuple[float | None, ...]
    last_change: SeriesChange | None
    run_time: datetime | None  # of the newest run
    visits: tuple[Visit, ...]  # within it

    @property
    def spread(self) -> float | None:
        """Range of the newest run's visits, relative to the smallest; None for fewer than two."""
        latencies = [visit.latency_s for visit in self.visits]
        return max(latencies) / min(latencies) - 1 if len(latencies) > 1 and min(latencies) > 0 else None

    @property
    def drift(self) -> float | None:
        """Relative change from the first to the last visit of the newest run; None for fewer than two."""
        if len(self.visits) < 2 or not self.visits[0].latency_s:
            return None
        return self.visits[-1].latency_s / self.visits[0].latency_s - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class EqualCodePair:
    """An A/A pair: consecutive runs of equal machine code on one GPU."""

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
    """A machine that recorded results."""

    name: str
    gpu: str | None
    cpu: str | None
    details: Mapping[str, str]  # asv's machine.json
    limits: HardwareLimits
    gpus: tuple[Gpu, ...]  # the newest first; empty if no run named one
    runs: int
    newest_run: datetime | None
    newest_commit: Commit | None


class Bound(StrEnum):
    """What keeps a kernel from being faster."""

    MEMORY = "memory"
    COMPUTE = "compute"
    LATENCY = "latency"  # of launch and synchronization: the work itself takes less than an empty launch


LAUNCH_S = 3e-6  # what an empty launch takes, about (perf_suite/README.md, steady latency)


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
    gpu: str | None = None  # UUID
    ceilings: Ceilings | None = None  # as measured on that GPU
    energy_j: float | None = None  # of one call, where measured
    trail: tuple[float, ...] = ()  # latencies at the last commits that have one, the newest last, s

    @property
    def measured_intensity(self) -> float | None:
        """FLOP/byte, over the DRAM traffic by a profiler."""
        moved = self.profile.dram_bytes if self.profile else None
        return self.workload.flops / moved if moved else None

    @property
    def gain_s(self) -> float:
        """Time that a kernel at the limit would save; at least 0. The limit is no less than an empty launch."""
        return max(self.latency_s - max(self.limit_s, LAUNCH_S), 0.0)

    @property
    def limit_s(self) -> float:
        """Shortest latency by the measured ceilings, else by the datasheet."""
        light = self.speed_of_light
        share = light.of_ceiling if light.of_ceiling is not None else light.of_peak
        return (share or 0.0) * self.latency_s

    def bound(self, limits: HardwareLimits) -> Bound:
        """The larger of memory traffic and arithmetic, unless both take less than an empty launch."""
        if self.limit_s < LAUNCH_S:
            return Bound.LATENCY
        memory, compute = roofline_shares(self.workload, limits, self.latency_s)
        return Bound.MEMORY if memory >= compute else Bound.COMPUTE


@dataclass(frozen=True, slots=True, kw_only=True)
class Roofline:
    """One machine's limits and the points under them."""

    machine: Machine
    points: tuple[RooflinePoint, ...]

    @property
    def measured(self) -> tuple[tuple[str | None, Ceilings], ...]:
        """Ceilings of the points, each with its GPU; the machine's newest if no point has any."""
        measured: list[tuple[str | None, Ceilings]] = []
        for point in self.points:
            if point.ceilings is not None and (point.gpu, point.ceilings) not in measured:
                measured.append((point.gpu, point.ceilings))
        newest = self.machine.limits.measured
        return tuple(measured) if measured or newest is None else ((None, newest),)


# Facts of asv's machine.json, which may be written by hand: GPU, memory, Python.

_GPU_KEYS = frozenset({"gpu", "gpus", "gpu_name", "gpu_model", "gpu name", "gpu model"})
_NOT_SHOWN = frozenset({"machine", "version", "cpu", *_GPU_KEYS})
_LABELS = {"os": "Operating system", "arch": "Architecture", "num_cpu": "CPUs", "ram": "Memory", "python": "Python"}
_BYTES = {"k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}
_SIZE = re.compile(r"([0-9.]+)\s*([kmgt])(i?)b?", re.IGNORECASE)


def gpu_of(details: Mapping[str, str]) -> str | None:
    """The GPU's name, without repeated words as in "NVIDIA NVIDIA L40S"."""
    text = next((text for name, text in details.items() if name.lower() in _GPU_KEYS and text.strip()), None)
    return re.sub(r"\b(\w+)(\s+\1\b)+", r"\1", text.strip(), flags=re.IGNORECASE) if text else None


def further_facts(details: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Labels and texts of all facts but the names of GPU and CPU."""
    for name, text in details.items():
        if not text or name.lower() in _NOT_SHOWN:
            continue
        label = _LABELS.get(name.lower(), name.replace("_", " ").capitalize() if name.islower() else name)
        if name.lower() == "python" and re.search(r"[/\\]", text):
            label = "Python’s path"
        yield label, _memory(text, details) if name.lower() == "ram" else text


def _memory(text: str, details: Mapping[str, str]) -> str:
    """Memory in one unit; asv itself writes a number of KiB on Linux."""
    if text.isdecimal() and details.get("os", "").startswith("Linux"):
        return quantity(int(text) * 1024, "bytes")
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        return text
    number, prefix, binary = match.groups()
    factor = 1024.0 ** ("kmgt".index(prefix.lower()) + 1) if binary else _BYTES[prefix.lower()]
    return quantity(float(number) * factor, "bytes") if number.count(".") < 2 else text


# The roofline: bound of a latency, and its share.
#
# Williams, Waterman and Patterson, "Roofline: an insightful visual performance model" (CACM 52:4, 2009). Memory
# traffic and arithmetic are assumed to overlap perfectly, so a latency below the bound means the bytes did not come
# from memory.


def bound_s(workload: Workload, ceilings: Ceilings) -> float | None:
    """Shortest latency the ceilings allow: the larger of bytes / bandwidth and FLOPs / peak of the dtype.

    None without a peak for the dtype of a workload with FLOPs, or without any bound.
    """
    peak = ceilings.flops.get(workload.dtype)
    if not peak and workload.flops:
        return None
    memory_s = workload.bytes / ceilings.bandwidth_bps if ceilings.bandwidth_bps else 0.0
    compute_s = workload.flops / peak if peak else 0.0
    return max(memory_s, compute_s) or None


def bound_by_memory(workload: Workload, limits: HardwareLimits) -> bool | None:
    """Whether memory is the bound, not the math units; None if no peak of the dtype, or no cost, is known."""
    if not (workload.bytes or workload.flops):
        return None
    for ceilings in limits.known:
        peak = ceilings.flops.get(workload.dtype)
        if peak and ceilings.bandwidth_bps:
            return workload.bytes / ceilings.bandwidth_bps >= workload.flops / peak
    return None


def roofline_shares(workload: Workload, limits: HardwareLimits, latency_s: float) -> tuple[float, float]:
    """Memory traffic and arithmetic as shares of the latency, each by itself; 0 where the peak is not known."""
    for ceilings in reversed(limits.known):  # as measured rather than as promised
        peak = ceilings.flops.get(workload.dtype)
        memory_s = workload.bytes / ceilings.bandwidth_bps if ceilings.bandwidth_bps else 0.0
        compute_s = workload.flops / peak if peak else 0.0
        if memory_s or compute_s:
            return memory_s / latency_s, compute_s / latency_s
    return 0.0, 0.0


def speed_of_light(workload: Workload, limits: HardwareLimits, latency_s: float) -> SpeedOfLight | None:
    """Both bounds as shares of the latency: 1 is as fast as the machine can. None if there is neither."""
    result = SpeedOfLight(
        of_peak=_share(workload, limits.peaks, latency_s), of_ceiling=_share(workload, limits.measured, latency_s)
    )
    return result if result.share is not None else None


def _share(workload: Workload, ceilings: Ceilings | None, latency_s: float) -> float | None:
    bound = bound_s(workload, ceilings) if ceilings else None
    return bound / latency_s if bound and latency_s > 0 else None

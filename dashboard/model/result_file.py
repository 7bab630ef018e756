"""Records of result files and their context, which importers pass to the store."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .series import Status

LATEST_MS = 253_402_300_799_000  # the last second of the year 9999, Python's latest date
LONGEST_NAME = 2_000  # bytes; PostgreSQL's indexes take no more than 2,700


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkSpec:
    """A benchmark as `benchmarks.json` describes it."""

    unit: str | None = None
    kind: str | None = None  # asv's type: "time", "track", "memory", "peakmemory"
    parameter_names: tuple[str, ...] = ()
    parameters: tuple[frozenset[str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """One parameter combination's outcome in one entry."""

    parameters: tuple[str, ...]  # as asv writes them: strings in quotes
    status: Status
    reason: str | None = None
    value: float | None = None
    q25: float | None = None
    q75: float | None = None
    sample_count: int | None = None
    samples: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One benchmark's results in a file. `mark` distinguishes its runs."""

    benchmark: str
    started_ms: int | None
    duration_s: float
    mark: str
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultFile:
    """One commit measured in one environment on one machine."""

    commit: str
    date_ms: int
    environment: str
    machine: str | None  # None if the file has none
    details: Mapping[str, str]
    entries: Sequence[Entry]  # PackedEntries if they are many
    problems: tuple[str, ...]  # omitted entries with reasons
    listed: Mapping[str, BenchmarkSpec] = field(default_factory=dict)  # benchmarks that the file itself describes


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextRun:
    """One execution of the suite, with the machine's state."""

    name: str
    commit: str
    started_ms: int
    data: Mapping[str, Any]

    @property
    def machine(self) -> Mapping[str, Any]:
        """Facts about the machine itself."""
        return {key: self.data.get(key) for key in ("device", "gpu", "cpu", "ceilings", "measured_ceilings")}

    @property
    def gpu(self) -> str | None:
        uuid = (self.data.get("gpu") or {}).get("uuid")
        return str(uuid) if uuid else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextMeasurement:
    """Facts of one run about one workload x implementation."""

    run: ContextRun
    benchmark: str  # without the method
    workload: str
    implementation: str
    status: Status
    reason: str | None
    sample_count: int | None
    code_sha256: str | None  # of the machine code it ran
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextProfile:
    """A profiler's counters of one workload x implementation, written at any time after the run."""

    run: ContextRun
    benchmark: str  # without the method
    workload: str
    implementation: str
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """A context file. Workloads and compiled code stay mappings, as the file has them."""

    runs: Mapping[str, ContextRun]
    workloads: tuple[Mapping[str, Any], ...]
    measurements: tuple[ContextMeasurement, ...]
    profiles: tuple[ContextProfile, ...]
    compiled: tuple[tuple[ContextRun, Mapping[str, Any]], ...]
    problems: tuple[str, ...]


def storable(text: str) -> bool:
    """Whether every database can store it: no NUL, no lone surrogate."""
    return "\0" not in text and (text.isascii() or not any("\ud800" <= c <= "\udfff" for c in text))


def storable_name(text: str) -> bool:
    """Whether it can be a name: storable, and short enough for an index."""
    return storable(text) and 0 < len(text.encode()) <= LONGEST_NAME

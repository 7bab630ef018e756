"""The lines of a context file: what was measured on what, beside asv's numbers. No torch here.

`<commit8>-<environment>.context.jsonl` holds one JSON object a line, append-only. The dashboard reads these
lines without importing this module, so a field may be added freely but keeps its meaning once it is there.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from typing import Any, ClassVar

SCHEMA = 1


class Status(StrEnum):
    """What came of one workload × implementation."""

    OK = "ok"
    INVALID = "invalid"  # measured, but not under the conditions a number may be taken under
    FAILED = "failed"  # wrong result, exception, crash or time limit: no number
    UNAVAILABLE = "unavailable"  # this commit or machine has no such implementation


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One GPU as NVML and torch describe it; None where neither says."""

    name: str
    uuid: str | None
    compute_capability: str  # "9.0"
    driver: str | None
    power_limit_w: float | None
    sm_count: int
    l2_bytes: int
    memory_bytes: int
    ecc: bool | None
    mig: bool | None
    other_processes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cpu:
    """The processor, and how many threads a CPU measurement was given."""

    model: str
    cores: int
    threads: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceilings:
    """What the memory and the math units can do at best, for the roofline."""

    name: str
    source: str  # "datasheet" or "measured"
    bandwidth_bps: float
    flops: Mapping[str, float]  # FLOP/s (OP/s for int8) by dtype
    note: str | None = None  # what is uncertain about them


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """One worker session: the machine and the software."""

    record: ClassVar[str] = "run"
    run: str  # uuid4 hex
    commit: str  # full hash; "" until the results are saved
    environment: str  # asv's environment name; "" until the results are saved
    started_at: str  # ISO 8601, UTC
    device: str  # "cuda" or "cpu"
    gpu: Gpu | None
    cpu: Cpu
    software: Mapping[str, str]
    ceilings: Ceilings | None
    schema: int = SCHEMA


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadRecord:
    """One row of the catalogue, as the dashboard's roofline needs it."""

    record: ClassVar[str] = "workload"
    run: str
    benchmark: str  # "benchmarks.rope.Rope"
    operator: str
    workload: str
    parameters: Mapping[str, int | bool]
    dtype: str
    flops: int
    bytes: int
    kernels: tuple[str, ...]
    baselines: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockEventReasons:
    """NVML's clock-event (throttle) bits around a measurement."""

    before: int
    after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasurementRecord:
    """What came of one workload × implementation, and under which conditions."""

    record: ClassVar[str] = "measurement"
    run: str
    benchmark: str
    workload: str
    implementation: str
    status: Status
    reason: str | None = None
    latency_s: float | None = None  # median of the samples given to asv
    sample_count: int = 0  # all that were taken
    sm_clock_hz: tuple[float, ...] | None = None  # thinned like the samples
    temperature_c: float | None = None
    clock_event_reasons: ClockEventReasons | None = None
    cache: str  # "cold": L2 flushed before each sample; "warm": as the previous call left it
    seed: int
    backend: str | None = None
    timer: str | None = None  # the instrument: "nvbench 0.3.0", "cuda-events", "torch.utils.benchmark, CPU time"
    relative_error: float | None = None
    tolerance: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledRecord:
    """One kernel function's machine code for one architecture."""

    record: ClassVar[str] = "compiled"
    run: str
    benchmark: str
    operator: str
    kernel: str
    architecture: str  # "sm_75"
    registers: int
    stack_bytes: int
    shared_bytes: int
    local_memory_instructions: int
    code_bytes: int
    instructions: Mapping[str, int] = field(default_factory=dict)
    sha256: str


Record = RunRecord | WorkloadRecord | MeasurementRecord | CompiledRecord
_BY_NAME: dict[str, type[Any]] = {
    kind.record: kind for kind in (RunRecord, WorkloadRecord, MeasurementRecord, CompiledRecord)
}
_NESTED: dict[str, type[Any]] = {
    "gpu": Gpu, "cpu": Cpu, "ceilings": Ceilings, "clock_event_reasons": ClockEventReasons, "status": Status,
}  # fmt: skip


def to_line(record: Record) -> str:
    """One line of JSON, without the newline."""
    return json.dumps({"record": record.record, **asdict(record)}, allow_nan=False)


def from_line(line: str) -> Record:
    """The record of one line; fields it does not know are passed over. Raises ValueError for another kind."""
    values = json.loads(line)
    kind = _BY_NAME.get(values.get("record"))
    if kind is None:
        raise ValueError(f"no record kind {values.get('record')!r}; there are {', '.join(_BY_NAME)}")
    known = {item.name for item in fields(kind)}
    built = {key: _typed(key, value) for key, value in values.items() if key in known}
    record: Record = kind(**built)
    return record


def _typed(key: str, value: Any) -> Any:
    if isinstance(value, list):
        return tuple(value)
    nested = _NESTED.get(key)
    if nested is None or value is None:
        return value
    return nested(**value) if isinstance(value, dict) else nested(value)

"""The lines of a context file: what was measured on what, in addition to asv's numbers. No torch here.

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
    FAILED = "failed"  # no number, for what `Failure` names
    UNAVAILABLE = "unavailable"  # this commit or machine has no such implementation
    UNCHANGED = "unchanged"  # skipped on request: its code is that of a commit measured before


class Failure(StrEnum):
    """In what way a measurement failed."""

    WRONG_RESULT = "wrong result"  # the correctness gate refused it
    ERROR = "error"  # it raised an exception
    CRASH = "crash"  # its process died, or could not be started again
    TIME_LIMIT = "time limit"  # it did not answer in time and was killed


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
    clock_hz: float | None = None  # of the fastest core as the run began, where the system reports it


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceilings:
    """What the memory and the math units can do at best, for the roofline."""

    name: str
    source: str  # "datasheet" or "measured"
    bandwidth_bps: float
    flops: Mapping[str, float]  # FLOP/s (OP/s for int8) by dtype
    note: str | None = None  # what is uncertain about them
    l2_bandwidth_bps: float | None = None
    measured_at: str | None = None  # ISO 8601, UTC; of measured ceilings


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
    ceilings: Ceilings | None  # the datasheet's peaks
    suite_sha256: str | None = None  # of warpbench and the benchmark directory: cases, gate, stopwatches
    measured_ceilings: Ceilings | None = None  # what `warpbench calibrate` measured on this GPU
    schema: int = SCHEMA


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadRecord:
    """One row of the catalogue, as the dashboard's roofline needs it."""

    record: ClassVar[str] = "workload"
    run: str
    benchmark: str  # "benchmarks.rope.Rope"
    operator: str
    workload: str
    parameters: Mapping[str, int | float | bool | str]
    dtype: str
    flops: int
    bytes: int
    kernels: tuple[str, ...]
    baselines: tuple[str, ...]
    controls: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Energy:
    """Energy of one call by NVML's total-energy counter, gross: the GPU's idle power is in it."""

    per_call_j: tuple[float, ...]  # one a window
    window_s: float  # of all windows together, from the first step of the counter to the last
    power_w: float  # mean over the windows
    method: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """One of the visits to a control or an implementation within a run."""

    at_s: float  # seconds since the run began
    latency_s: float  # median of the visit's samples


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
    inaccuracy: float | None = None  # a baseline's error as a multiple of the allowed one, where it exceeds that
    at_s: float | None = None  # when it was measured, in seconds since the run began
    throttled_s: Mapping[str, float] | None = (
        None  # time throttled while measuring, by reason, of the driver's counters
    )
    contenders: int | None = None  # other processes that computed on the GPU meanwhile
    warm_latency_s: float | None = None  # inputs still in the L2, calls back to back in a CUDA graph
    steady_latency_s: float | None = None  # calls back to back in a CUDA graph, over copies of the inputs in turn
    steady_copies: int | None = None  # how many
    steady_reason: str | None = None  # why there is no such number although it was asked for
    sm_cycles: float | None = None  # median of latency x SM clock, sample by sample
    peak_memory_bytes: int | None = None  # allocated at the worst moment of a call, over its inputs and outputs
    kernels_launched: int | None = None  # kernels, copies and memsets that one call enqueues
    launched: Mapping[str, int] | None = None  # how often each, by kernel name
    energy: Energy | None = None
    quick: bool = False  # a handful of samples, to see that it works
    metrics: tuple[str, ...] = ()  # the optional ones that were asked for
    code_sha256: str | None = None  # code_digest of what it ran, where it is ours; equal code is an A/A pair
    visits: tuple[Visit, ...] = ()  # of a control, or of an implementation measured in turn with others
    tries: int = 1  # how often it was measured, as long as it was invalid
    failure: Failure | None = None  # where the status is failed; older records have none


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfiledKernel:
    """One kernel of a profiled call, by Nsight Compute's counters; None where this GPU has no such counter."""

    name: str  # the function's own, as in `launched` and in compiled records
    signature: str  # with its template arguments
    duration_s: float | None
    dram_bytes: float | None  # read and written while it ran; lines that it left dirty in the L2 are not in it
    l2_bytes: float | None
    l1_bytes: float | None
    occupancy: float | None  # achieved, as a share of the warps an SM can hold
    tensor_pipe: float | None  # share of the cycles in which the tensor pipe was busy
    stalls: Mapping[str, float]  # warps that waited for a reason per issued instruction, largest first
    counters: Mapping[str, float]  # the rest, by Nsight Compute's own names and in its base units


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileRecord:
    """What Nsight Compute saw of one workload x implementation. No latency: a profiler slows what it watches."""

    record: ClassVar[str] = "profile"
    run: str
    benchmark: str
    operator: str
    workload: str
    implementation: str
    profiler: str  # "Nsight Compute 2025.3.1"
    backend: str | None = None
    cache: str  # "cold": flushed before each kernel, not only before the first
    dram_bytes: float | None  # of all kernels together
    kernels: tuple[ProfiledKernel, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledRecord:
    """One kernel's machine code for one architecture, its instantiations taken together; None where unknown."""

    record: ClassVar[str] = "compiled"
    run: str
    benchmark: str
    operator: str
    kernel: str
    architecture: str  # "sm_75"
    implementation: str = "warpwatch"  # or "triton"
    instantiations: int | None = None
    registers: int  # a thread, of the instantiation that needs most; so are stack, shared memory, threads and barriers
    stack_bytes: int
    shared_bytes: int  # a block, static
    dynamic_shared_bytes: int | None = None  # a block
    threads_per_block: int | None = None
    barriers: int | None = None  # a block, named ones in hardware
    occupancy: float | None = None  # theoretical: share of an SM's warps, of the instantiation with the lowest
    occupancy_limit: str | None = None  # "warps", "registers", "shared memory", "blocks" or "barriers"
    local_memory_instructions: int  # spills, and arrays indexed at run time
    local_memory_bytes: int | None = None
    code_bytes: int
    instructions: Mapping[str, int] = field(default_factory=dict)  # by mnemonic; "LDG.128" by width, "total" of all
    sha256: str
    compile_s: float | None = None  # CPU time, of a Triton function; a CUDA source's is a series of its own


Record = RunRecord | WorkloadRecord | MeasurementRecord | ProfileRecord | CompiledRecord
_BY_NAME: dict[str, type[Any]] = {
    kind.record: kind for kind in (RunRecord, WorkloadRecord, MeasurementRecord, ProfileRecord, CompiledRecord)
}
_NESTED: dict[tuple[type[Any], str], type[Any]] = {
    (RunRecord, "gpu"): Gpu,
    (RunRecord, "cpu"): Cpu,
    (RunRecord, "ceilings"): Ceilings,
    (RunRecord, "measured_ceilings"): Ceilings,
    (MeasurementRecord, "clock_event_reasons"): ClockEventReasons,
    (MeasurementRecord, "status"): Status,
    (MeasurementRecord, "failure"): Failure,
    (MeasurementRecord, "energy"): Energy,
    (MeasurementRecord, "visits"): Visit,
    (ProfileRecord, "kernels"): ProfiledKernel,
}


def to_line(record: Record) -> str:
    """One line of JSON, without the newline."""
    return json.dumps({"record": record.record, **asdict(record)}, allow_nan=False)


def from_line(line: str) -> Record:
    """The record of one line; fields it does not know are passed over. Raises ValueError for another kind."""
    values = json.loads(line)
    kind = _BY_NAME.get(values.get("record"))
    if kind is None:
        raise ValueError(f"no record kind {values.get('record')!r}; there are {', '.join(_BY_NAME)}")
    record: Record = _built(kind, values)
    return record


def _built(kind: type[Any], values: Mapping[str, Any]) -> Any:
    known = {item.name for item in fields(kind)}
    return kind(**{name: _typed(kind, name, value) for name, value in values.items() if name in known})


def _typed(kind: type[Any], name: str, value: Any) -> Any:
    nested = _NESTED.get((kind, name))
    if isinstance(value, list):
        return tuple(_built(nested, item) if nested else _plain(item) for item in value)
    if nested is None or value is None:
        return value
    return _built(nested, value) if isinstance(value, dict) else nested(value)


def _plain(item: Any) -> Any:
    return tuple(item) if isinstance(item, list) else item

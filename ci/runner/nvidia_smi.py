"""GPU facts from `nvidia-smi`."""

import csv
import re
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CompletedCommand:
    """Exit status and output of a command; 127 if it is missing or hangs."""

    status: int
    out: str
    err: str = ""

    @property
    def first_line(self) -> str:
        lines = (self.out or self.err).strip().splitlines()
        return lines[0].strip() if lines else ""


_FIELDS = (
    "uuid",
    "name",
    "driver_version",
    "compute_cap",
    "persistence_mode",
    "compute_mode",
    "mig.mode.current",
    "ecc.mode.current",
    "ecc.errors.uncorrected.volatile.total",
    "temperature.gpu",
    "power.draw",
    "power.limit",
    "power.default_limit",
    "clocks.sm",
    "clocks.max.sm",
    "clocks.max.mem",
    "clocks.applications.graphics",
    "clocks.default_applications.graphics",
    "clocks_event_reasons.active",
    "display_active",
)
_OLDER_NAMES = {"clocks_event_reasons.active": "clocks_throttle_reasons.active"}  # drivers before 535
_UNKNOWN_FIELD = re.compile(r'Field "([^"]+)" is not a valid field')


NvidiaSmi = Callable[..., CompletedCommand]  # runs nvidia-smi with these arguments


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A process with a compute context on a GPU."""

    gpu_uuid: str
    pid: int
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SmiGpu:
    """A GPU; facts that it or its driver does not report are None."""

    uuid: str
    name: str
    driver: str
    fields: dict[str, str]  # by their names in nvidia-smi

    def flag(self, name: str) -> bool | None:
        """Whether a mode is Enabled; None if unknown."""
        return {"Enabled": True, "Disabled": False}.get(self.fields.get(name, ""))

    def number(self, name: str) -> float | None:
        """A number in nvidia-smi's unit: MHz, W, °C."""
        try:
            return float(self.fields.get(name, ""))
        except ValueError:
            return None

    @property
    def clock_events(self) -> int:
        """NVML's clock event reasons, a bit mask; 0 if unknown."""
        mask = self.fields.get("clocks_event_reasons.active") or self.fields.get("clocks_throttle_reasons.active")
        try:
            return int(mask or "", 16)
        except ValueError:
            return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpus:
    """All GPUs, or the reason that none is reported."""

    devices: tuple[SmiGpu, ...] = ()
    processes: tuple[Process, ...] = ()
    is_installed: bool = True  # nvidia-smi
    error: str | None = None  # of nvidia-smi, if it cannot reach the driver


def query_gpus(nvidia_smi: NvidiaSmi) -> Gpus:
    """Queries nvidia-smi. A field that this driver does not know is queried by its older name, or left out."""
    fields = list(_FIELDS)
    while True:
        answer = nvidia_smi(f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits")
        unknown = _UNKNOWN_FIELD.search(answer.out + answer.err)
        if unknown is None or unknown[1] not in fields:
            break
        index = fields.index(unknown[1])
        fields[index : index + 1] = [_OLDER_NAMES[unknown[1]]] if unknown[1] in _OLDER_NAMES else []
    if answer.status == 127:
        return Gpus(is_installed=False)
    if answer.status or not answer.out.strip():
        return Gpus(error=answer.first_line or f"nvidia-smi ended with {answer.status}")
    rows = list(csv.reader(answer.out.splitlines(), skipinitialspace=True))
    broken = [row for row in rows if len(row) != len(fields)]
    if broken:
        return Gpus(error=f"nvidia-smi answered {', '.join(broken[0])[:200]!r}; expected {len(fields)} fields per GPU")
    devices = []
    for row in rows:
        known = {name: value.strip() for name, value in zip(fields, row, strict=True) if not _is_unknown(value)}
        devices.append(
            SmiGpu(
                uuid=known.get("uuid", "?"),
                name=known.get("name", "?"),
                driver=known.get("driver_version", "?"),
                fields=known,
            )
        )
    return Gpus(devices=tuple(devices), processes=_processes(nvidia_smi))


def supported_clocks(nvidia_smi: NvidiaSmi, uuid: str) -> tuple[int, ...]:
    """SM clocks in MHz at the highest memory clock, ascending; empty if not reported."""
    answer = nvidia_smi("-i", uuid, "--query-supported-clocks=memory,graphics", "--format=csv,noheader,nounits")
    pairs = []
    for row in csv.reader(answer.out.splitlines(), skipinitialspace=True):
        if len(row) == 2 and all(clock.strip().isdecimal() for clock in row):
            pairs.append((int(row[0]), int(row[1])))
    if answer.status or not pairs:
        return ()
    highest = max(memory for memory, _ in pairs)
    return tuple(sorted({clock for memory, clock in pairs if memory == highest}))


def _processes(nvidia_smi: NvidiaSmi) -> tuple[Process, ...]:
    answer = nvidia_smi("--query-compute-apps=gpu_uuid,pid,process_name", "--format=csv,noheader")
    if answer.status:
        return ()
    rows = csv.reader(answer.out.splitlines(), skipinitialspace=True)
    return tuple(
        Process(gpu_uuid=row[0].strip(), pid=int(row[1]), name=row[2].strip())
        for row in rows
        if len(row) == 3 and row[1].strip().isdecimal()
    )


def _is_unknown(value: str) -> bool:
    return value.strip().strip("[]") in {"N/A", "Not Supported", "Unknown Error", "GPU requires reset", ""}

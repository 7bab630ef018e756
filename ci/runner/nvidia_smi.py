"""GPU facts from `nvidia-smi`."""

import csv
import re
from collections.abc import Callable
from dataclasses import dataclass

# How a command ended.


@dataclass(frozen=True, slots=True)
class CompletedCommand:
    """Exit status and output of a command; 127 if it is missing or hangs."""

    status: int
    out: str
    err: str = ""

    @property
    def first_line(self) -> str:
        """First line of the output."""
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
_ELDER = {"clocks_event_reasons.active": "clocks_throttle_reasons.active"}  # drivers before 535
_UNKNOWN_FIELD = re.compile(r'Field "([^"]+)" is not a valid field')


Ask = Callable[..., CompletedCommand]


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A process with a compute context on a GPU."""

    gpu: str  # UUID
    pid: int
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """A GPU; facts that it or its driver does not report are None."""

    uuid: str
    name: str
    driver: str
    told: dict[str, str]  # by nvidia-smi's names

    def flag(self, name: str) -> bool | None:
        """Whether a mode is Enabled; None if unknown."""
        return {"Enabled": True, "Disabled": False}.get(self.told.get(name, ""))

    def number(self, name: str) -> float | None:
        """A number in nvidia-smi's unit: MHz, W, °C."""
        try:
            return float(self.told.get(name, ""))
        except ValueError:
            return None

    @property
    def clock_events(self) -> int:
        """NVML's clock-event bits of this moment."""
        said = self.told.get("clocks_event_reasons.active") or self.told.get("clocks_throttle_reasons.active") or ""
        try:
            return int(said, 16)
        except ValueError:
            return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpus:
    """All GPUs, or the reason that none is reported."""

    cards: tuple[Gpu, ...] = ()
    processes: tuple[Process, ...] = ()
    installed: bool = True  # nvidia-smi is there
    complaint: str | None = None  # nvidia-smi's, where it could not ask the driver


def query_gpus(ask: Ask) -> Gpus:
    """Queries nvidia-smi. Fields that this driver does not know are left out or queried by their older name."""
    fields = list(_FIELDS)
    while True:
        said = ask(f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits")
        unknown = _UNKNOWN_FIELD.search(said.out + said.err)
        if unknown is None or unknown[1] not in fields:
            break
        place = fields.index(unknown[1])
        fields[place : place + 1] = [_ELDER[unknown[1]]] if unknown[1] in _ELDER else []
    if said.status == 127:
        return Gpus(installed=False)
    if said.status or not said.out.strip():
        first = (said.out + said.err).strip().splitlines()
        return Gpus(complaint=first[0].strip() if first else f"nvidia-smi ended with {said.status}")
    rows = list(csv.reader(said.out.splitlines(), skipinitialspace=True))
    broken = [row for row in rows if len(row) != len(fields)]
    if broken:
        return Gpus(complaint=f"nvidia-smi answered {', '.join(broken[0])[:200]!r}; wanted {len(fields)} fields a card")
    cards = []
    for row in rows:
        told = {name: value.strip() for name, value in zip(fields, row, strict=True) if not _is_unknown(value)}
        cards.append(
            Gpu(
                uuid=told.get("uuid", "?"),
                name=told.get("name", "?"),
                driver=told.get("driver_version", "?"),
                told=told,
            )
        )
    return Gpus(cards=tuple(cards), processes=_processes(ask))


def supported_clocks(ask: Ask, uuid: str) -> tuple[int, ...]:
    """SM clocks in MHz at the highest memory clock, ascending; empty if not reported."""
    said = ask("-i", uuid, "--query-supported-clocks=memory,graphics", "--format=csv,noheader,nounits")
    pairs = []
    for row in csv.reader(said.out.splitlines(), skipinitialspace=True):
        if len(row) == 2 and all(each.strip().isdecimal() for each in row):
            pairs.append((int(row[0]), int(row[1])))
    if said.status or not pairs:
        return ()
    highest = max(memory for memory, _ in pairs)
    return tuple(sorted({clock for memory, clock in pairs if memory == highest}))


def _processes(ask: Ask) -> tuple[Process, ...]:
    said = ask("--query-compute-apps=gpu_uuid,pid,process_name", "--format=csv,noheader")
    if said.status:
        return ()
    rows = csv.reader(said.out.splitlines(), skipinitialspace=True)
    return tuple(
        Process(gpu=row[0].strip(), pid=int(row[1]), name=row[2].strip())
        for row in rows
        if len(row) == 3 and row[1].strip().isdecimal()
    )


def _is_unknown(value: str) -> bool:
    return value.strip().strip("[]") in {"N/A", "Not Supported", "Unknown Error", "GPU requires reset", ""}

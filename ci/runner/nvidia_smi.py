"""What `nvidia-smi` tells of each GPU, and how a command ended."""

import csv
import re
from collections.abc import Callable
from dataclasses import dataclass

# How a command ended.


@dataclass(frozen=True, slots=True)
class Said:
    """Its status and its words. A command that is not there, or hangs, ends with 127."""

    status: int
    out: str
    err: str = ""

    @property
    def first_line(self) -> str:
        """What a person reads first of it."""
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


Ask = Callable[..., Said]


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One with a compute context on a card."""

    gpu: str  # UUID
    pid: int
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """A card; what it or its driver does not tell is None."""

    uuid: str
    name: str
    driver: str
    told: dict[str, str]  # by nvidia-smi's names

    def flag(self, name: str) -> bool | None:
        """Enabled or Disabled."""
        return {"Enabled": True, "Disabled": False}.get(self.told.get(name, ""))

    def number(self, name: str) -> float | None:
        """In nvidia-smi's unit: MHz, W, °C."""
        try:
            return float(self.told.get(name, ""))
        except ValueError:
            return None

    @property
    def clock_events(self) -> int:
        """NVML's bits of what holds the clock down at this moment."""
        said = self.told.get("clocks_event_reasons.active") or self.told.get("clocks_throttle_reasons.active") or ""
        try:
            return int(said, 16)
        except ValueError:
            return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpus:
    """All cards, or why none is told."""

    cards: tuple[Gpu, ...] = ()
    processes: tuple[Process, ...] = ()
    installed: bool = True  # nvidia-smi is there
    complaint: str | None = None  # nvidia-smi's, where it could not ask the driver


def query_gpus(ask: Ask) -> Gpus:
    """Asks nvidia-smi. A field that this driver does not know is left out, or asked for by its elder name."""
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
    """SM clocks in MHz that the card runs at its highest memory clock, the lowest first; empty where it tells none."""
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

"""Where measured ceilings are kept between `calibrate` and the runs after it: one JSON file a GPU. No torch here.

`<folder>/<uuid>.json`, the folder being $WARPWATCH_CEILINGS, or `warpwatch/ceilings` in the user's data folder
($XDG_DATA_HOME, else ~/.local/share). The file holds a `Calibration` as it is, with its schema's number.
"""

import json
import os
import re
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..records import Ceilings, Cpu

FOLDER_VARIABLE = "WARPWATCH_CEILINGS"
BANDWIDTH, L2_BANDWIDTH = "bandwidth", "l2"  # names of ceilings; the others' are dtypes
_SCHEMA = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """One measured ceiling."""

    name: str  # BANDWIDTH, L2_BANDWIDTH or a dtype
    rate: float  # bytes/s, FLOP/s or OP/s
    method: str  # what was run, over what
    spread: float  # standard deviation of the batches' times over their mean
    settled: bool  # whether the rate had stopped falling when the measurement began
    sm_clock_hz: float | None = None  # median meanwhile, where NVML reports it


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """All that was measured of one GPU (or one CPU), and under what."""

    uuid: str
    name: str
    measured_at: str  # ISO 8601, UTC
    driver: str | None
    power_limit_w: float | None
    software: Mapping[str, str]
    ceilings: tuple[Ceiling, ...]
    left_out: Mapping[str, str]  # why, by the ceiling's name
    note: str | None = None  # what was wrong with the conditions

    def as_record(self) -> Ceilings:
        """The ceilings as a run record carries them. Raises ValueError where memory bandwidth was not measured."""
        rates = {ceiling.name: ceiling.rate for ceiling in self.ceilings}
        if BANDWIDTH not in rates:
            raise ValueError(f"the calibration of {self.name} holds no memory bandwidth, only {', '.join(rates)}")
        remarks = [ceiling.method for ceiling in self.ceilings if ceiling.name == BANDWIDTH]
        remarks += [f"driver {self.driver}"] if self.driver else []
        remarks += [f"torch {self.software['torch']}"] if "torch" in self.software else []
        remarks += [f"power limit {self.power_limit_w:g} W"] if self.power_limit_w else []
        remarks += [f"{c.name} was still falling" for c in self.ceilings if not c.settled]
        remarks += [self.note] if self.note else []
        return Ceilings(
            name=self.name,
            source="measured",
            bandwidth_bps=rates.pop(BANDWIDTH),
            l2_bandwidth_bps=rates.pop(L2_BANDWIDTH, None),
            flops=rates,
            note="; ".join(remarks),
            measured_at=self.measured_at,
        )


def measured_ceilings(uuid: str | None, folder: Path | None = None) -> Ceilings | None:
    """What `calibrate` measured on the GPU of this UUID, or None where it never ran.

    Raises ValueError, naming the file, if there is one that it did not write.
    """
    calibration = load(uuid, folder) if uuid else None
    return calibration.as_record() if calibration else None


def cpu_key(cpu: Cpu) -> str:
    """A CPU's stand-in for a UUID: its model. "CPU-Intel-Xeon-Processor"."""
    return "CPU-" + re.sub(r"[^A-Za-z0-9.]+", "-", cpu.model).strip("-")


def default_folder() -> Path:
    """The folder that the environment names."""
    if chosen := os.environ.get(FOLDER_VARIABLE):
        return Path(chosen)
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "warpwatch" / "ceilings"


def load(uuid: str, folder: Path | None = None) -> Calibration | None:
    """The stored calibration, or None. Raises ValueError for a file that is none."""
    file = _file(uuid, folder)
    try:
        text = file.read_text()
    except FileNotFoundError:
        return None
    try:
        return _from_json(text)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{file} is no calibration ({error!r}): delete it, or run `warpbench calibrate`") from error


def save(calibration: Calibration, folder: Path | None = None) -> Path:
    """Write the calibration's file, whole or not at all, over an earlier one; returns its path.

    Raises ValueError, and writes nothing, where memory bandwidth was not measured.
    """
    calibration.as_record()
    file = _file(calibration.uuid, folder)
    file.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"schema": _SCHEMA, **asdict(calibration)}, indent=1, allow_nan=False)
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.stem}-")
    try:
        with os.fdopen(handle, "w") as stream:
            stream.write(text + "\n")
        Path(name).chmod(0o644)  # mkstemp's is the owner's alone; another user's run may read it
        Path(name).replace(file)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return file


def _file(uuid: str, folder: Path | None) -> Path:
    return (folder or default_folder()) / f"{re.sub(r'[^A-Za-z0-9._-]', '_', uuid)}.json"


def _from_json(text: str) -> Calibration:
    values: dict[str, Any] = json.loads(text)
    schema = values.pop("schema")
    if schema != _SCHEMA:
        raise ValueError(f"schema {schema}, expected {_SCHEMA}")
    ceilings = tuple(Ceiling(**ceiling) for ceiling in values.pop("ceilings"))
    return Calibration(ceilings=ceilings, **values)

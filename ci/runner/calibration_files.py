"""Files of `warpbench calibrate`: one JSON file per GPU, named after its UUID."""

import json
import re
from pathlib import Path

from .host import Host


def ceiling_file(host: Host, key: str) -> Path:
    """File of the ceilings of a GPU (UUID) or processor (key), for the user of this environment."""
    return ceiling_folder(host) / f"{re.sub(r'[^A-Za-z0-9._-]', '_', key)}.json"


def ceiling_folder(host: Host) -> Path:
    """WARPWATCH_CEILINGS, or the user's data folder (XDG Base Directory Specification)."""
    if chosen := host.environ.get("WARPWATCH_CEILINGS"):
        return Path(chosen)
    return Path(host.environ.get("XDG_DATA_HOME") or host.home / ".local" / "share") / "warpwatch" / "ceilings"


def free_clock_file(host: Host, key: str) -> Path:
    """The calibration at free clocks, from which set-up chooses the locked clock."""
    return ceiling_folder(host) / "free-clocks" / ceiling_file(host, key).name


def cpu_key(cpuinfo: str) -> str:
    """Key of a processor instead of a UUID: the model from /proc/cpuinfo."""
    models = re.findall(r"^model name\s*:\s*(.*)$", cpuinfo, re.MULTILINE)
    return "CPU-" + re.sub(r"[^A-Za-z0-9.]+", "-", models[0] if models else "").strip("-")


def clock_under_load_mhz(file: Path) -> float | None:
    """The lowest SM clock during a calibration, in MHz, its heaviest work included; None if unknown."""
    try:
        clocks_hz = [ceiling["sm_clock_hz"] for ceiling in json.loads(file.read_text())["ceilings"]]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    known_hz = [float(clock) for clock in clocks_hz if clock]
    return min(known_hz) / 1e6 if known_hz else None

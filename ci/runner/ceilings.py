"""What `python -m perf_suite calibrate` left: a JSON file a card, by its UUID. The file is the contract."""

import json
import re
from pathlib import Path

from warpwatch.ci.runner.host import Host


def ceiling_file(host: Host, key: str) -> Path:
    """Where the ceilings of a card's UUID, or of a processor's key, are kept for the user of this environment."""
    return ceiling_folder(host) / f"{re.sub(r'[^A-Za-z0-9._-]', '_', key)}.json"


def ceiling_folder(host: Host) -> Path:
    """WARPWATCH_CEILINGS, or the user's data folder (XDG Base Directory Specification)."""
    if chosen := host.environ.get("WARPWATCH_CEILINGS"):
        return Path(chosen)
    return Path(host.environ.get("XDG_DATA_HOME") or host.home / ".local" / "share") / "warpwatch" / "ceilings"


def free_clock_file(host: Host, key: str) -> Path:
    """The calibration that set-up made at free clocks, by which it chooses the clock to lock."""
    return ceiling_folder(host) / "free-clocks" / ceiling_file(host, key).name


def cpu_key(cpuinfo: str) -> str:
    """A processor's stand-in for a UUID, from /proc/cpuinfo: its model."""
    models = re.findall(r"^model name\s*:\s*(.*)$", cpuinfo, re.MULTILINE)
    return "CPU-" + re.sub(r"[^A-Za-z0-9.]+", "-", models[0] if models else "").strip("-")


def clock_under_load_mhz(file: Path) -> float | None:
    """The lowest SM clock that the card kept while it was calibrated, its heaviest work included; None if not told."""
    try:
        clocks = [each["sm_clock_hz"] for each in json.loads(file.read_text())["ceilings"]]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    told = [float(each) for each in clocks if each]
    return min(told) / 1e6 if told else None

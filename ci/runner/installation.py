"""Installed parts of a runner: units, GitHub's runner program, measured ceilings."""

import json
import re
from pathlib import Path

from .host import Host

OLDEST = "2.336.0"  # the first with `uses: $/…`, by which our workflows call each other
RELEASES = "https://github.com/actions/runner/releases"


def version_of(host: Host, folder: Path) -> str | None:
    """From the list of dependencies, else from the program, which writes a log into its folder; None if unknown."""
    try:
        dependencies = (folder / "bin" / "Runner.Listener.deps.json").read_text(errors="replace")
    except OSError:
        dependencies = ""
    if match := re.search(r'"Runner\.Listener/(\d+(?:\.\d+)+)', dependencies):
        return match[1]
    answer = host.run(*host.as_user, str(folder / "bin" / "Runner.Listener"), "--version")
    match = re.fullmatch(r"\d+(?:\.\d+)+", answer.first_line)
    return match[0] if match and answer.status == 0 else None


def is_too_old(version: str) -> bool:
    """Whether the version is too old for the workflows."""
    return _numbers(version) < _numbers(OLDEST)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


# Files of `warpbench calibrate`: one JSON file per GPU, named after its UUID.


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


# Names and paths of a runner's units and secrets, below the root.

UNIT_FOLDER = "etc/systemd/system"
PUSH_TOKEN, GITHUB_TOKEN = "etc/warpwatch/push-token", "etc/warpwatch/github-token"
SECRETS = (PUSH_TOKEN, GITHUB_TOKEN)
CLOCKS, MEASURE, TIMER = "warpwatch-clocks.service", "warpwatch-measure.service", "warpwatch-measure.timer"
PUSH, REGISTRATION, ACTIONS = "warpwatch-push.service", "warpwatch-registration.service", "warpwatch-actions.service"
WATCHED_UNITS = (TIMER, PUSH, ACTIONS)  # enabled by an administrator; these require the others

"""The examined machine: files below a root, commands, the checkout, calibrations, units; and findings about it."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from pathlib import Path

from .nvidia_smi import CompletedCommand, Gpus, query_gpus

_TIMEOUT_S = 60
_VERSIONS = """
import json, sys
from importlib.metadata import distributions
versions = {each.metadata["Name"].lower(): each.version for each in distributions() if each.metadata["Name"]}
print(json.dumps({**versions, "python": sys.version.split()[0]}))
"""


@dataclass(frozen=True, kw_only=True)
class Host:
    """A machine. Tests use other roots, environments and PATHs."""

    folder: Path  # the checkout, with asv.conf.json
    root: Path = Path("/")  # of /proc, /sys and /etc
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    is_root: bool = field(default_factory=lambda: os.geteuid() == 0)
    as_user: tuple[str, ...] = ()  # prefix of commands that the measuring user runs: runuser if this is root

    def run(
        self, *command: str, cwd: Path | None = None, timeout_s: float = _TIMEOUT_S, show_stderr: bool = False
    ) -> CompletedCommand:
        """Runs a command without input. With `show_stderr` its errors and progress go to the terminal."""
        try:
            done = subprocess.run(
                command,
                env=dict(self.environ),
                cwd=cwd,
                text=True,
                errors="replace",
                timeout=timeout_s,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=None if show_stderr else subprocess.PIPE,
            )
        except FileNotFoundError:
            return CompletedCommand(127, "", f"{command[0]} is not installed")
        except subprocess.TimeoutExpired:
            return CompletedCommand(127, "", f"{command[0]} did not end within {timeout_s:.0f} s")
        except OSError as error:
            return CompletedCommand(127, "", f"{command[0]}: {error.strerror}")
        return CompletedCommand(done.returncode, done.stdout, done.stderr or "")

    def which(self, name: str) -> str | None:
        """Path of a command; None if it is missing."""
        return shutil.which(name, path=self.environ.get("PATH"))

    def read(self, path: str) -> str | None:
        """Content of a small file below the root; None if it cannot be read."""
        try:
            return (self.root / path.lstrip("/")).read_text(errors="replace").strip()
        except OSError:
            return None

    @property
    def home(self) -> Path:
        """Home folder of the user."""
        return Path(self.environ.get("HOME") or Path.home())

    @property
    def python(self) -> str:
        """The interpreter of the checkout's environment, else this one."""
        own = self.folder / ".venv" / "bin" / "python"
        return str(own if own.exists() else sys.executable)

    @cached_property
    def packages(self) -> Mapping[str, str]:
        """Versions of the packages of that interpreter, its own as `python`; empty if it does not run."""
        listing = self.run(*self.as_user, self.python, "-c", _VERSIONS, timeout_s=300)
        try:
            versions: dict[str, str] = json.loads(listing.out)
        except ValueError:
            return {}
        return versions

    @cached_property
    def gpus(self) -> Gpus:
        """The GPUs that nvidia-smi reports."""
        return query_gpus(lambda *words: self.run("nvidia-smi", *words))

    @cached_property
    def has_gpu(self) -> bool:
        """Whether the PCI bus has an NVIDIA GPU, with or without a driver."""
        for device in (self.root / "sys/bus/pci/devices").glob("*"):
            vendor, kind = (self.read(f"{device.relative_to(self.root)}/{name}") for name in ("vendor", "class"))
            if vendor == "0x10de" and (kind or "").startswith("0x03"):
                return True
        return False

    @cached_property
    def privilege(self) -> tuple[str, ...] | None:
        """Prefix of commands that need root: empty, `sudo -n`, or None if root is unavailable."""
        if self.is_root:
            return ()
        return ("sudo", "-n") if self.run("sudo", "-n", "true").status == 0 else None


class FindingState(StrEnum):
    """Severity of a finding. Only WRONG makes the exit status 1."""

    GOOD = "good"
    NOTE = "note"  # measuring works, with more noise or another flaw
    WRONG = "wrong"  # measuring fails, or its values cannot be trusted
    UNKNOWN = "unknown"  # not reported by this machine


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One finding of a check."""

    check: str
    source: str  # the file, command or field that was read
    state: FindingState
    observed: str
    why: str = ""  # it matters; empty if good or unknown
    fix: str = ""  # a command, or a sentence if no command does it


@dataclass(frozen=True, slots=True)
class Subject:
    """What a check reads; makes its findings."""

    check: str
    source: str  # the file, command or field

    def good(self, observed: str) -> Finding:
        """Without a problem."""
        return self._finding(FindingState.GOOD, observed)

    def note(self, observed: str, *, why: str, fix: str) -> Finding:
        """It could be improved."""
        return self._finding(FindingState.NOTE, observed, why, fix)

    def wrong(self, observed: str, *, why: str, fix: str) -> Finding:
        """It must be fixed."""
        return self._finding(FindingState.WRONG, observed, why, fix)

    def unknown(self, observed: str) -> Finding:
        """This machine does not report it."""
        return self._finding(FindingState.UNKNOWN, observed)

    def _finding(self, state: FindingState, observed: str, why: str = "", fix: str = "") -> Finding:
        return Finding(check=self.check, source=self.source, state=state, observed=observed, why=why, fix=fix)


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

"""The machine that `warpwatch runner` examines and sets up: its files, commands, packages and GPUs."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
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

"""A runner's machine below a temporary root, with a fake nvidia-smi on its PATH."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.ci.runner.fake_nvidia_smi import FakeNvidiaSmi
from warpwatch.ci.runner.host import Host


@pytest.fixture
def smi(tmp_path: Path) -> FakeNvidiaSmi:
    return FakeNvidiaSmi(tmp_path / "bin")


@pytest.fixture
def host(tmp_path: Path, smi: FakeNvidiaSmi) -> Host:
    """A healthy machine: a checkout, a named machine, an idle processor."""
    root, home, checkout = tmp_path / "root", tmp_path / "home", tmp_path / "checkout"
    for folder in (home, checkout, root / "run/lock", root / "proc/sys/kernel"):
        folder.mkdir(parents=True)
    (root / "proc/loadavg").write_text("0.05 0.1 0.1 1/100 1\n")
    (root / "proc/cpuinfo").write_text("model name\t: A CPU\n")
    (root / "proc/sys/kernel/hostname").write_text("box\n")
    governors = root / "sys/devices/system/cpu/cpu0/cpufreq"
    governors.mkdir(parents=True)
    (governors / "scaling_governor").write_text("performance\n")
    (home / ".asv-machine.json").write_text('{"box": {"machine": "box"}, "version": 1}')
    (checkout / "asv.conf.json").write_text("{}")
    subprocess.run(["git", "init", "-q", str(checkout)], check=True)
    environ = {"PATH": f"{smi.folder}:{os.environ['PATH']}", "HOME": str(home)}
    return Host(folder=checkout, root=root, environ=environ, is_root=True)

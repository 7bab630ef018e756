"""Attributes of devices and kernels, which each launch needs."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from warpwatch.kernels.building.toolchain import find_cuda

CSRC = Path(__file__).resolve().parents[2] / "kernels/csrc"


def test_each_is_set_or_queried_once(tmp_path: Path) -> None:
    compiler, cuda = shutil.which("g++"), find_cuda()
    if compiler is None or cuda is None:
        pytest.skip("no g++ here, or no CUDA headers")
    sources = [str(Path(__file__).with_name("remembered_attributes.cpp")), str(CSRC / "primitives/attributes.cpp")]
    command = [compiler, "-std=c++20", "-w", "-pthread", "-DWARPWATCH_WITH_CUDA=1"]
    command += ["-I", str(CSRC), "-isystem", str(cuda.include), *sources]
    subprocess.run([*command, "-o", "remembered"], cwd=tmp_path, check=True)
    assert subprocess.run([tmp_path / "remembered"]).returncode == 0

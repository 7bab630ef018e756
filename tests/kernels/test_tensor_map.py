"""Tensor maps where the CUDA driver cannot be used yet."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from warpwatch.kernels.building.toolchain import find_cuda

CSRC = Path(__file__).resolve().parents[2] / "kernels/csrc"


def test_a_driver_that_was_not_found_is_looked_for_again(tmp_path: Path) -> None:
    compiler, cuda = shutil.which("g++"), find_cuda()
    if compiler is None or cuda is None:
        pytest.skip("no g++ here, or no CUDA headers")
    sources = [str(Path(__file__).with_name("tensor_map_retry.cpp")), str(CSRC / "primitives/tensor_map.cpp")]
    command = [compiler, "-std=c++20", "-w", "-DWARPWATCH_WITH_CUDA=1"]
    command += ["-I", str(CSRC), "-isystem", str(cuda.include), *sources]
    subprocess.run([*command, "-o", "retry"], cwd=tmp_path, check=True)
    assert subprocess.run([tmp_path / "retry"]).returncode == 0

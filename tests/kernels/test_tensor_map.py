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
    source = Path(__file__).with_name("tensor_map_retry.cpp")
    command = [compiler, "-std=c++20", "-w", "-I", str(CSRC), "-isystem", str(cuda.include), str(source), "-o", "retry"]
    subprocess.run(command, cwd=tmp_path, check=True)
    assert subprocess.run([tmp_path / "retry"]).returncode == 0

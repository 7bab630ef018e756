"""Small CUDA sources for the tests of compiled code, and the real compiler that turns them into cubins."""

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="no CUDA compiler here")


@dataclass(frozen=True)
class Compiled:
    """A cubin, and what ptxas said of each of its kernels."""

    cubin: bytes
    said: dict[str, str]

    def number(self, kernel: str, words: str) -> int:
        """The number before `words`, 0 if ptxas does not say them."""
        found = re.search(rf"(\d+) {words}", self.said[kernel])
        return int(found.group(1)) if found else 0


def compiled(source: str, architecture: str, folder: Path, name: str = "kernels") -> Compiled:
    """The source as nvcc compiles it for one architecture."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.cu").write_text(source)
    command = ["nvcc", f"-arch={architecture}", "-Xptxas", "-v", "-cubin", "-o", f"{name}.cubin", f"{name}.cu"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    parts = re.split(r"Compiling entry function '(\S+)'", done.stderr)
    return Compiled(
        cubin=(folder / f"{name}.cubin").read_bytes(), said=dict(zip(parts[1::2], parts[2::2], strict=True))
    )


def object_file(source: str, architecture: str, folder: Path) -> Path:
    """The source as an object file, with the host's code and the GPU's."""
    (folder / "kernels.cu").write_text(source)
    command = ["nvcc", f"-arch={architecture}", "-c", "-o", "kernels.o", "kernels.cu"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder / "kernels.o"

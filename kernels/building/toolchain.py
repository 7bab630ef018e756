"""Finds what the build needs: the C++ compiler, the CUDA compiler and PyTorch's headers."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class CudaToolkit:
    """One CUDA compiler with its headers and static runtime."""

    nvcc: Path
    include: Path
    libraries: Path
    version: str  # "13.0"
    build: str  # nvcc's full version text
    origin: str  # how it was found, for the log


@dataclass(frozen=True, slots=True, kw_only=True)
class Torch:
    """The PyTorch whose stable headers the bindings include."""

    include: Path
    libraries: Path
    version: str  # "2.13.0+cpu"; the place of its headers where it was put on the path without metadata


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolchain:
    """Everything that a build runs or includes; without a CUDA toolkit, the extension is for the CPU only."""

    cxx: str
    torch: Torch
    cuda: CudaToolkit | None

    @property
    def versions(self) -> dict[str, str]:
        """What an object depends on besides sources and flags."""
        cuda = {"cuda": self.cuda.build} if self.cuda else {}
        return {"c++": _said([self.cxx, "--version"]), "torch": self.torch.version, **cuda}


def find_torch() -> Torch | None:
    """Headers and libraries of an installed PyTorch 2.10 or newer, without importing it."""
    spec = importlib.util.find_spec("torch")
    if spec is None or not spec.submodule_search_locations:
        return None
    home = Path(next(iter(spec.submodule_search_locations)))
    version = _torch_version()
    # Older versions have the folder too, but not the functions that the bindings use. A PyTorch built from source and
    # put on the path has no version: it is trusted.
    too_old = version is not None and tuple(map(int, version.split(".")[:2])) < (2, 10)
    if too_old or not (home / "include" / "torch" / "csrc" / "stable").is_dir():
        return None
    return Torch(include=home / "include", libraries=home / "lib", version=version or str(home))


def _torch_version() -> str | None:
    try:
        return importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return None


def find_ninja() -> list[str]:
    """The command that runs ninja: this environment's, else the machine's. Raises RuntimeError without one."""
    next_to_python = Path(sys.executable).parent / "ninja"
    if next_to_python.is_file():
        return [str(next_to_python)]
    if on_path := shutil.which("ninja"):
        return [on_path]
    if importlib.util.find_spec("ninja"):
        return [sys.executable, "-m", "ninja"]
    raise RuntimeError("no ninja: pip install ninja")


def find_toolchain(torch: Torch, *, with_cuda: bool) -> Toolchain:
    """The compilers of this machine. Raises RuntimeError without a C++ compiler."""
    cxx = os.environ.get("CXX") or shutil.which("g++") or shutil.which("c++")
    if cxx is None:
        raise RuntimeError("no C++ compiler on PATH: install g++ (Debian: apt-get install g++), or set CXX")
    return Toolchain(
        cxx=cxx,
        torch=torch,
        cuda=find_cuda() if with_cuda else None,
    )


def find_cuda() -> CudaToolkit | None:
    """The CUDA compiler of CUDA_HOME, else of PATH, else of the pip packages; None without any.

    Raises RuntimeError if CUDA_HOME is set to a folder without a working nvcc.
    """
    home = os.environ.get("CUDA_HOME")
    if home:
        toolkit = _toolkit(Path(home) / "bin" / "nvcc", "CUDA_HOME")
        if toolkit is None:
            raise RuntimeError(f"CUDA_HOME={home} has no working bin/nvcc with headers and libcudart_static.a")
        return toolkit
    on_path = shutil.which("nvcc")
    candidates = [(Path(on_path), "PATH")] if on_path else []
    candidates += [
        (nvcc, "the pip packages")
        for folder in dict.fromkeys(sys.path)
        for nvcc in sorted(Path(folder or ".").glob("nvidia/cu*/bin/nvcc"), reverse=True)
    ]
    for nvcc, origin in candidates:
        toolkit = _toolkit(nvcc, origin)
        if toolkit is not None:
            return toolkit
    return None


def _toolkit(nvcc: Path, origin: str) -> CudaToolkit | None:
    if not nvcc.is_file():
        return None
    build = _said([str(nvcc), "--version"])
    version = re.search(r"release (\d+\.\d+)", build)
    # nvcc may be a wrapper script; ask it for its installation folder.
    top = re.search(r"^#\$ TOP=(.+)$", _said([str(nvcc), "--dryrun", "-x", "cu", "-c", os.devnull]), re.MULTILINE)
    if version is None or top is None:
        return None
    home = Path(top[1].strip()).resolve()
    libraries = (home / name for name in ("lib64", "lib", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib"))
    with_runtime = next((folder for folder in libraries if (folder / "libcudart_static.a").is_file()), None)
    include = home / "include"
    if with_runtime is None or not (include / "cuda_runtime.h").is_file():
        return None
    return CudaToolkit(
        nvcc=nvcc, include=include, libraries=with_runtime, version=version[1], build=build, origin=origin
    )


def _said(command: list[str]) -> str:
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout

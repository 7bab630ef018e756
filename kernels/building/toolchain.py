"""What the build compiles with: the C++ compiler, ccache, the CUDA compiler and PyTorch's headers, each where it is."""

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
    origin: str  # how it was found, for the log


@dataclass(frozen=True, slots=True, kw_only=True)
class Torch:
    """The PyTorch whose stable headers the bindings include."""

    include: Path
    libraries: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolchain:
    """Everything a build runs or includes; no CUDA toolkit means an extension for the CPU alone."""

    cxx: str
    launcher: str | None  # ccache
    torch: Torch
    cuda: CudaToolkit | None


def find_torch() -> Torch | None:
    """The headers and libraries of an installed PyTorch of 2.10 or newer, without importing it."""
    spec = importlib.util.find_spec("torch")
    if spec is None or not spec.submodule_search_locations:
        return None
    home = Path(next(iter(spec.submodule_search_locations)))
    # Older ones have the folder too, without the calls that the bindings use.
    if _torch_version() < (2, 10) or not (home / "include" / "torch" / "csrc" / "stable").is_dir():
        return None
    return Torch(include=home / "include", libraries=home / "lib")


def _torch_version() -> tuple[int, int]:
    try:
        major, minor = importlib.metadata.version("torch").split(".")[:2]
    except importlib.metadata.PackageNotFoundError:  # built from source and put on the path: trust it
        return (2, 10)
    return (int(major), int(minor))


def find_ninja() -> list[str]:
    """The command that runs ninja: this environment's own, else the machine's. Raises RuntimeError without one."""
    beside_python = Path(sys.executable).parent / "ninja"
    if beside_python.is_file():
        return [str(beside_python)]
    if on_path := shutil.which("ninja"):
        return [on_path]
    if importlib.util.find_spec("ninja"):
        return [sys.executable, "-m", "ninja"]
    raise RuntimeError("no ninja: pip install ninja")


def find_toolchain(torch: Torch, *, with_cuda: bool) -> Toolchain:
    """The compilers of this machine. Raises RuntimeError where there is no C++ compiler."""
    cxx = os.environ.get("CXX") or shutil.which("g++") or shutil.which("c++")
    if cxx is None:
        raise RuntimeError("no C++ compiler on PATH: install g++ (Debian: apt-get install g++), or set CXX")
    return Toolchain(
        cxx=cxx,
        launcher=shutil.which("ccache"),
        torch=torch,
        cuda=find_cuda() if with_cuda else None,
    )


def find_cuda() -> CudaToolkit | None:
    """The CUDA compiler of CUDA_HOME, else of PATH, else of the pip packages; None where there is none.

    Raises RuntimeError if CUDA_HOME names a place without a working nvcc: somebody meant that one.
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
    version = re.search(r"release (\d+\.\d+)", _said([str(nvcc), "--version"]))
    # nvcc may be a wrapper script: it knows its own home.
    top = re.search(r"^#\$ TOP=(.+)$", _said([str(nvcc), "--dryrun", "-x", "cu", "-c", os.devnull]), re.MULTILINE)
    if version is None or top is None:
        return None
    home = Path(top[1].strip()).resolve()
    libraries = (home / name for name in ("lib64", "lib", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib"))
    with_runtime = next((folder for folder in libraries if (folder / "libcudart_static.a").is_file()), None)
    include = home / "include"
    if with_runtime is None or not (include / "cuda_runtime.h").is_file():
        return None
    return CudaToolkit(nvcc=nvcc, include=include, libraries=with_runtime, version=version[1], origin=origin)


def _said(command: list[str]) -> str:
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout

"""Builds kernels/csrc into _C.abi3.so with ninja. Called by setup.py; needs no package of ours and imports no torch.

Environment variables: WARPWATCH_CUDA_ARCHS ("all", "90a", "75;86" or "none"; default: this machine's GPUs), CUDA_HOME,
CXX, MAX_JOBS, and XDG_CACHE_HOME for the object store.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

from . import architectures as arch
from .build_record import build_record
from .ninja_file import ninja_file, objects_of
from .object_store import prune, store_folder
from .toolchain import Toolchain, find_ninja, find_toolchain, find_torch

__all__ = ["build_extension"]


def build_extension(root: Path, output: Path) -> bool:
    """Compile what changed and write the extension to `output`; returns False if no PyTorch is installed.

    Also writes <name>.build.json (build_record.py) next to it. Objects stay in `root`/build/kernels, one folder per set
    of architectures. Raises RuntimeError if a compiler fails.
    """
    torch = find_torch()
    if torch is None:
        _say("no PyTorch of 2.10 or newer is installed, so the kernels are left out (the dashboard needs none)")
        return False
    architectures = arch.parse(os.environ.get("WARPWATCH_CUDA_ARCHS"))
    toolchain = find_toolchain(torch, with_cuda=bool(architectures))
    if toolchain.cuda is None:
        if architectures:
            _warn_without_cuda()
        architectures = ()
    kernels = f"CUDA {toolchain.cuda.version} of {toolchain.cuda.origin}" if toolchain.cuda else "CPU only"
    _say(f"{kernels} {', '.join(architectures)}; {toolchain.cxx}")

    folder = Path("build", "kernels", "_".join(architectures) or arch.NONE)
    (root / folder).mkdir(parents=True, exist_ok=True)
    with (root / folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two builds of one checkout would write the same objects
        _run_ninja(root, folder, toolchain, architectures)
        record = build_record(root, objects_of(root, folder, toolchain, architectures))
        _put((root / folder / "_C.abi3.so").read_bytes(), output)
        _put(record.encode(), output.with_name(output.name.partition(".")[0] + ".build.json"))
    return True


def _run_ninja(root: Path, folder: Path, toolchain: Toolchain, architectures: tuple[str, ...]) -> None:
    """Run the build and log its cost."""
    store = store_folder()
    with contextlib.suppress(OSError):  # without a store everything is compiled
        store.mkdir(parents=True, exist_ok=True)
    before = set(store.glob("*.o"))
    recipe = root / folder / "build.ninja"
    recipe.write_text(ninja_file(root, folder, toolchain, architectures))
    jobs = os.environ.get("MAX_JOBS") or str(len(os.sched_getaffinity(0)))
    command = [*find_ninja(), "-f", str(folder / "build.ninja"), "-j", jobs]
    started_s, used = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, cwd=root)
    if done.returncode != 0:
        raise RuntimeError(f"the kernels did not compile (the compiler's words are above): {' '.join(command)}")
    now = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime
    compiled, sources = len(set(store.glob("*.o")) - before), len(objects_of(root, folder, toolchain, architectures))
    size_mb = (root / folder / "_C.abi3.so").stat().st_size / 1e6
    _say(
        f"compiled {compiled} of {sources} sources in {cpu_s:.0f} CPU seconds ({time.monotonic() - started_s:.0f} s); "
        f"the library has {size_mb:.1f} MB"
    )
    prune(store)


def _put(content: bytes, output: Path) -> None:
    # Replaced atomically: a running process keeps the file that it has mapped.
    if output.exists() and output.read_bytes() == content:
        return
    output.parent.mkdir(parents=True, exist_ok=True)
    fresh = output.with_name(output.name + f".{os.getpid()}")
    fresh.write_bytes(content)
    fresh.replace(output)


def _warn_without_cuda() -> None:
    _say("WARNING: no CUDA compiler (CUDA_HOME, PATH, pip): the extension will have CPU kernels only.")
    _say("         To get one without a toolkit: pip install -r kernels/building/cuda_from_pip.txt")


def _say(text: str) -> None:
    print(f"warpwatch kernels: {text}", file=sys.stderr, flush=True)

"""One hash of everything of ours that an implementation runs, to tell whether two commits run the same code.

Machine code alone would not do: which kernel is launched, with how many blocks, is decided by the host. So the hash
covers the kernels' machine code for the GPU at hand, the host code of launchers, binding and framework, and the Python
in front of them. It does not cover what is not ours: driver, PyTorch, Triton's version are in the run's record.
"""

import functools
import hashlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from .architectures import architecture_run_by, parse_compute_capability
from .cubin import CubinFunction, read_cubin
from .cuda_binaries import NoToolsError, cubins_of, find_tools, ptx_of
from .installed_kernels import NoKernelsError, compiled_sources, kernels_folder, library
from .machine_code import code_sha256
from .mangled_names import kernel_name, signature
from .python_code import python_code_sha256
from .watched_kernels import WATCHED

_ON_THE_CPU = "_cpu.cpp"
# Operators that launch kernels of another one too: the parts' combination, and attention of the same template.
_LAUNCHES_OF = {
    "flash_attention_varlen": "flash_attention",
    "int4_decode_attention": "decode_attention",
    "int8_decode_attention": "decode_attention",
    "paged_decode_attention": "decode_attention",
}
_SHARED = ("quantized_kv", "quantize_int8")  # bindings of several operators, beside what is called ..._operands
_PRETENDED_GPU = "WARPWATCH_COMPUTE_CAPABILITY"  # makes dispatch take another GPU's kernels


def code_digest(implementation: str, operator: str, compute_capability: str | None) -> str | None:
    """sha256 of what an implementation of an operator runs on a GPU such as "9.0", or (None) on the CPU.

    Equal where comments, paths or line numbers changed alone. None where the implementation is not ours, or where
    this commit's build does not tell all of it. Reads the library once, however often it is called.
    """
    try:
        if implementation == "triton":
            return None if compute_capability is None else _python_sha256(f"triton/{operator}.py")
        if implementation != "warpwatch":
            return None
        on_gpu = compute_capability is not None
        parts = [_python_sha256(f"operators/{operator}.py"), *_host_code(operator, on_gpu=on_gpu)]
        if compute_capability is not None:
            if os.environ.get(_PRETENDED_GPU):
                return None
            parts += _device_code(operator, compute_capability)
    except (NoKernelsError, NoToolsError, FileNotFoundError):
        return None
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _python_sha256(module: str) -> str:
    folder = kernels_folder()
    return python_code_sha256(folder / module, folder)


def _host_code(operator: str, *, on_gpu: bool) -> Iterator[str]:
    sources = sorted(compiled_sources().items())
    folders = _folders_of(operator, {source.split("/")[0] for source, _ in sources})
    for source, facts in sources:
        folder, _, name = source.partition("/")
        own = folder in folders and source.endswith(_ON_THE_CPU) != on_gpu
        stem = name.removesuffix(".cpp")
        bound = folder == "bindings" and (
            stem in folders or stem.startswith((f"{operator}_", *_SHARED)) or stem.endswith("_operands")
        )
        if own or bound or folder == "framework":
            yield f"{source} {facts.host_sha256}"


def _folders_of(operator: str, folders: set[str]) -> set[str]:
    """Its own, those of the sources it is watched in, and those that it shares with other operators."""
    watched = {source.split("/")[0] for source in WATCHED[operator].sources} if operator in WATCHED else set()
    found = {operator, *watched, *(folder for folder in folders if operator.startswith(f"{folder}_"))}
    return found | {_LAUNCHES_OF[operator]} if operator in _LAUNCHES_OF else found


def _device_code(operator: str, compute_capability: str) -> list[str]:
    """Machine code where the library has some for this GPU; else the PTX that the driver compiles."""
    path = library()
    stamp = path.stat().st_mtime_ns
    watched = WATCHED[operator].kernels
    if operator in _LAUNCHES_OF:
        watched += WATCHED[_LAUNCHES_OF[operator]].kernels
    functions = [
        (signature(function.name), function)
        for function in _functions(path, stamp, compute_capability)
        if kernel_name(function.name) in watched
    ]
    if functions:
        return [code_sha256(functions)]
    compiled_by_driver = [ptx for ptx in _ptx(path, stamp) if any(kernel in ptx for kernel in watched)]
    if not compiled_by_driver:
        raise NoKernelsError(f"the library has no {operator} for {compute_capability}")
    return [hashlib.sha256(signature(ptx).encode()).hexdigest() for ptx in compiled_by_driver]


@functools.lru_cache(maxsize=4)
def _functions(path: Path, stamp: int, compute_capability: str) -> tuple[CubinFunction, ...]:
    cubins = cubins_of(path, find_tools())
    taken = architecture_run_by(parse_compute_capability(compute_capability), {cubin.architecture for cubin in cubins})
    return tuple(function for cubin in cubins if cubin.architecture == taken for function in read_cubin(cubin.data))


@functools.lru_cache(maxsize=4)
def _ptx(path: Path, stamp: int) -> tuple[str, ...]:
    return tuple(ptx.data.decode() for ptx in ptx_of(path, find_tools()))


if __name__ == "__main__":  # CAPABILITY OPERATOR:IMPLEMENTATION...: their digests as JSON
    _capability, *_pairs = sys.argv[1:]
    _told = {}
    for _pair in _pairs:
        _operator, _, _implementation = _pair.partition(":")
        _told[_pair] = code_digest(_implementation, _operator, _capability or None)
    print(json.dumps(_told))

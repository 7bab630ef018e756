"""One hash of everything of ours that an implementation runs, to decide whether two commits run the same code.

Machine code alone would not do: which kernel is launched, with how many blocks, is decided by the host. So the hash
covers the kernels' machine code for the GPU at hand, the host code of launchers, binding and framework, and the Python
in front of them. It does not cover what is not ours: driver, PyTorch, Triton's version are in the run's record.
"""

import functools
import hashlib
import importlib
import inspect
import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from warpbench.compiled.architectures import architecture_run_by, parse_compute_capability
from warpbench.compiled.cubin import CubinFunction, read_cubin
from warpbench.compiled.cuda_binaries import NoToolsError, cubins_of, find_tools, ptx_of
from warpbench.compiled.machine_code import code_sha256
from warpbench.compiled.mangled_names import kernel_name, signature
from warpbench.python_code import python_code_sha256

from .installed_kernels import NoKernelsError, compiled_sources, kernels_folder, library
from .watched_kernels import watched_operators

_ON_THE_CPU = "_cpu.cpp"
# Operators that launch kernels of another one too: the parts' combination, and instances of the same template.
_LAUNCHES_OF = {
    "ffn_gelu": "linear_gelu",
    "flash_attention_varlen": "flash_attention",
    "int4_decode_attention": "decode_attention",
    "int8_decode_attention": "decode_attention",
    "linear": "linear_gelu",
    "linear_silu": "linear_gelu",
    "paged_decode_attention": "decode_attention",
    "swiglu": "linear_gelu",
}
# Implementations of ours that call other operators than the one they are measured as.
_CALLS = {
    ("unfused", "rope_paged_kv_append"): ("rope", "paged_kv_append"),
    ("unquantized", "int4_decode_attention"): ("decode_attention",),
    ("unquantized", "int8_decode_attention"): ("decode_attention",),
}
_MODELS = ("language_model", "transformer_layer")  # of many operators: everything in the library counts
_NOT_RUN = "building"  # makes the library, and is not part of what runs
_OPERANDS = "operands.cpp"  # checks and parameters that the bindings of several operators share
_BINDINGS_THEN = "bindings"  # the folder of all bindings in commits before they lay with their kernels
_PRETENDED_GPU = "WARPWATCH_COMPUTE_CAPABILITY"  # makes dispatch take another GPU's kernels


def code_digest(implementation: str, operator: str, compute_capability: str | None) -> str | None:
    """sha256 of what an implementation of an operator runs on a GPU such as "9.0", or (None) on the CPU.

    Equal where comments, paths or line numbers changed alone. None where the implementation is not ours, or where
    this commit's build does not record all of it. Reads the library once, however often it is called.
    """
    on_gpu = compute_capability is not None
    try:
        if implementation == "triton":
            return _python_sha256(kernels_folder() / "triton" / f"{operator}.py") if on_gpu else None
        called = _CALLS.get((implementation, operator), (operator,) if implementation == "warpwatch" else ())
        if not called or (on_gpu and os.environ.get(_PRETENDED_GPU)):
            return None
        parts = [part for each in called for part in _parts(each, compute_capability)]
    except (NoKernelsError, NoToolsError, OSError, ImportError):
        return None
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _parts(operator: str, compute_capability: str | None) -> Iterator[str]:
    """Python, host code and, on a GPU, the machine code."""
    if operator in _MODELS:
        folder = kernels_folder()
        modules = [path.relative_to(folder) for path in sorted(folder.rglob("*.py"))]
        yield from (f"{path} {_alone_sha256(folder / path)}" for path in modules if path.parts[0] != _NOT_RUN)
    else:
        yield _python_sha256(_module_of(operator))
    yield from _host_code(operator, on_gpu=compute_capability is not None)
    if compute_capability is not None:
        yield from _device_code(operator, compute_capability)


def _module_of(operator: str) -> Path:
    """The file that defines `warpwatch.kernels.<operator>`. Loads torch where that is an older commit's."""
    for path in sorted((kernels_folder() / "operators").glob("*.py")):
        if re.search(rf"^def {operator}\(", path.read_text(), re.MULTILINE):
            return path
    function = getattr(importlib.import_module("warpwatch.kernels"), operator, None)
    if function is None:
        raise NoKernelsError(f"this commit has no operator {operator}")
    return Path(sys.modules[inspect.unwrap(function).__module__].__file__ or "")


def _python_sha256(module: Path) -> str:
    return python_code_sha256(module.resolve(), kernels_folder())


def _alone_sha256(module: Path) -> str:
    return python_code_sha256(module, module)  # itself as the package: what it imports is listed separately


def _host_code(operator: str, *, on_gpu: bool) -> Iterator[str]:
    sources = sorted(compiled_sources().items())
    every = {source.split("/")[0] for source, _ in sources}
    folders = every if operator in _MODELS else _folders_of(operator, every)
    for source, facts in sources:
        folder, _, name = source.partition("/")
        binding = folder in folders and name.startswith("binding")
        own = folder in folders and (binding or source.endswith(_ON_THE_CPU) != on_gpu)
        if own or name == _OPERANDS or folder in ("framework", _BINDINGS_THEN):
            yield f"{source} {facts.host_sha256}"


def _folders_of(operator: str, folders: set[str]) -> set[str]:
    """Its own, those of the sources it is watched in, and those that it shares with other operators."""
    found = set()
    watched = watched_operators()
    for name in _with_launched(operator):
        sources = watched[name].sources if name in watched else ()
        found |= {name, *(source.split("/")[0] for source in sources)}
        found |= {folder for folder in folders if name.startswith(f"{folder}_")}
    return found


def _with_launched(operator: str) -> tuple[str, ...]:
    return (operator, _LAUNCHES_OF[operator]) if operator in _LAUNCHES_OF else (operator,)


def _device_code(operator: str, compute_capability: str) -> list[str]:
    """Machine code where the library has some for this GPU; else the PTX that the driver compiles."""
    path = library()
    stamp = path.stat().st_mtime_ns
    of_operators = watched_operators()
    names = of_operators if operator in _MODELS else _with_launched(operator)
    watched = {kernel for name in names if name in of_operators for kernel in of_operators[name].kernels}
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
    _digests = {}
    for _pair in _pairs:
        _operator, _, _implementation = _pair.partition(":")
        _digests[_pair] = code_digest(_implementation, _operator, _capability or None)
    print(json.dumps(_digests))

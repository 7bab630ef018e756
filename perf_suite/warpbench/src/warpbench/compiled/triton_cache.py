"""What Triton compiled in a process, and what its cache holds of that: a cubin and a JSON file for each kernel."""

import contextlib
import json
import os
import sys
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .cubin import read_cubin
from .cuda_binaries import Tools
from .instructions import count_instructions
from .machine_code import Instantiation, KernelKey

_OPTIONS = ("num_warps", "num_ctas", "num_stages")
_FIRST_WITH_AN_A = 90  # Triton compiles for sm_90a, sm_100a, sm_120a
# torch.compile's caches of whole graphs: a graph from them brings its kernels without asking Triton.
_GRAPH_CACHES = (
    ("torch._inductor.config", "fx_graph_cache", "TORCHINDUCTOR_FX_GRAPH_CACHE"),
    ("torch._functorch.config", "enable_autograd_cache", "TORCHINDUCTOR_AUTOGRAD_CACHE"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TritonKernel:
    """One Triton function in one configuration, compiled for one architecture."""

    function: str
    architecture: str
    configuration: str  # unique among the function's; the same wherever it was compiled
    cubin: bytes
    shared_bytes: int  # of a block; all of it is dynamic in Triton


@contextlib.contextmanager
def compiled_files() -> Iterator[list[str]]:
    """The JSON files in Triton's cache of the kernels that this process compiles or loads within, in a list that grows.

    A kernel that the process has loaded before does not come again. Empty where there is no Triton of 3.4 or newer.
    """
    files: list[str] = []
    try:
        from triton import knobs
    except ImportError:
        yield files
        return
    before = knobs.compilation.listener

    def listener(**compiled: Any) -> None:
        group: dict[str, str] = compiled["metadata_group"]
        if any(name.endswith(".cubin") for name in group):  # else it was compiled for a GPU of others than NVIDIA
            files.extend(str(path) for name, path in group.items() if name.endswith(".json"))
        if before is not None:
            before(**compiled)

    knobs.compilation.listener = listener
    try:
        with _without_graph_caches():
            yield files
    finally:
        knobs.compilation.listener = before


@contextlib.contextmanager
def _without_graph_caches() -> Iterator[None]:
    with contextlib.ExitStack() as changed:
        for module, option, variable in _GRAPH_CACHES:
            if module in sys.modules:
                changed.enter_context(sys.modules[module].patch(**{option: False}))
            else:  # seconds to import, and most kernels need no torch.compile
                os.environ[variable] = "0"
                changed.callback(os.environ.pop, variable, None)
        yield


def read_triton_cache(files: Iterable[Path]) -> tuple[TritonKernel, ...]:
    """The kernels of some of the cache's JSON files. Files that the cache has dropped meanwhile are left out."""
    kernels = []
    for file in files:
        try:
            metadata, cubin = json.loads(file.read_text()), file.with_suffix(".cubin").read_bytes()
        except FileNotFoundError:
            continue
        arch = int(metadata["target"]["arch"])
        kernels.append(
            TritonKernel(
                function=metadata["name"],
                architecture=f"sm_{arch}{'a' if arch >= _FIRST_WITH_AN_A else ''}",
                configuration=str({name: metadata.get(name) for name in _OPTIONS}),
                cubin=cubin,
                shared_bytes=metadata["shared"],
            )
        )
    return tuple(kernels)


def triton_instantiations(kernels: Collection[TritonKernel], tools: Tools) -> dict[KernelKey, list[Instantiation]]:
    """All configurations of each function, sorted by function and architecture."""
    functions = {}
    for kernel in kernels:
        (functions[kernel.cubin],) = read_cubin(kernel.cubin)  # Triton inlines all that a kernel calls
    instructions = count_instructions({functions[kernel.cubin].code: kernel.architecture for kernel in kernels}, tools)
    found: dict[KernelKey, list[Instantiation]] = defaultdict(list)
    for kernel in kernels:
        function = functions[kernel.cubin]
        found[kernel.function, kernel.architecture].append(
            Instantiation(
                signature=kernel.configuration,
                function=function,
                instructions=instructions[function.code],
                threads=function.most_threads,
                dynamic_shared_bytes=kernel.shared_bytes,
            )
        )
    return dict(sorted(found.items()))

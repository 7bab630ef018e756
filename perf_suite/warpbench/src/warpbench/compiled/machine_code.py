"""Facts of compiled kernels, read from the extension with NVIDIA's tools. Needs no GPU and no torch.

A kernel here is a `__global__` function by its name; its template instantiations are taken together (the most
registers any of them needs, the sum of their instructions), so that a changed template parameter does not end
a series.
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from .architectures import architecture_run_by, compute_capability_of
from .cubin import CubinFunction, read_cubin
from .cuda_binaries import Tools, cubins_of
from .instructions import INSTRUCTION_BYTES, Instructions, count_instructions
from .mangled_names import kernel_name, launch_shape, signature
from .occupancy import Occupancy, occupancy

KernelKey = tuple[str, str]  # a kernel's name and an architecture


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelCode:
    """One kernel on one architecture."""

    kernel: str
    architecture: str  # "sm_90a"
    instantiations: int
    registers: int  # a thread, of the instantiation that needs most; so are stack, shared memory, threads and barriers
    stack_bytes: int
    shared_bytes: int  # a block, static
    dynamic_shared_bytes: int | None  # a block; None where the kernel uses some and does not say how much
    threads_per_block: int | None  # the most it is launched with; None where the kernel does not say
    barriers: int
    occupancy: float | None  # share of the warps an SM can hold, of the instantiation with the lowest
    occupancy_limit: str | None  # what keeps that one from more
    local_memory_instructions: int  # LDL and STL: spills, and arrays indexed at run time
    local_memory_bytes: int
    code_bytes: int
    instructions: dict[str, int]  # by mnemonic, global loads by width, and "total"
    sha256: str  # the same for the same code, wherever and whenever it was compiled


@dataclass(frozen=True, slots=True, kw_only=True)
class Instantiation:
    """One function of a cubin, and what it is launched with as far as that is known."""

    signature: str  # distinguishes it from the kernel's other instantiations; the same wherever it was compiled
    function: CubinFunction
    instructions: Instructions
    threads: int | None
    dynamic_shared_bytes: int | None

    def occupancy(self, architecture: str) -> Occupancy | None:
        """None unless everything it depends on is known."""
        if self.threads is None or self.dynamic_shared_bytes is None:
            return None
        return occupancy(
            compute_capability_of(architecture),
            threads=self.threads,
            registers=self.function.registers,
            shared_bytes=self.function.shared_bytes + self.dynamic_shared_bytes,
            barriers=self.function.barriers,
        )


def read_machine_code(
    library: Path, tools: Tools, architectures: Collection[str], *, is_wanted: Callable[[str], bool]
) -> tuple[KernelCode, ...]:
    """The wanted kernels (by name) of a library for each of the architectures, sorted; of a CPU build none.

    Raises CalledProcessError if the library cannot be read.
    """
    found = library_instantiations(library, tools, architectures, is_wanted=is_wanted)
    return tuple(kernel_code(*key, instantiations) for key, instantiations in found.items())


def library_instantiations(
    library: Path, tools: Tools, architectures: Collection[str], *, is_wanted: Callable[[str], bool]
) -> dict[KernelKey, list[Instantiation]]:
    """The functions of the wanted kernels of a library, sorted by kernel and architecture.

    Of an architecture the machine code that its GPU takes: sm_86's on sm_89, where that has none of its own.
    Raises CalledProcessError if the library cannot be read.
    """
    kernels: dict[KernelKey, list[CubinFunction]] = defaultdict(list)
    cubins = cubins_of(library, tools)
    built = {cubin.architecture for cubin in cubins}
    taken_by: dict[str, list[str]] = defaultdict(list)
    for architecture in architectures:
        taken = architecture_run_by(compute_capability_of(architecture), built)
        if taken is not None:
            taken_by[taken].append(architecture)
    for cubin in cubins:
        for function in read_cubin(cubin.data) if cubin.architecture in taken_by else ():
            if is_wanted(name := kernel_name(function.name)):
                for architecture in taken_by[cubin.architecture]:
                    kernels[name, architecture].append(function)
    # sm_86 and sm_89 often have the same code, which is read once
    codes = {function.code: key[1] for key, functions in kernels.items() for function in functions}
    instructions = count_instructions(codes, tools)
    return {
        key: [_instantiation(function, instructions[function.code]) for function in functions]
        for key, functions in sorted(kernels.items())
    }


def kernel_names(library: Path, tools: Tools) -> set[str]:
    """The kernels of a library, for any architecture. Raises CalledProcessError if the library cannot be read."""
    return {kernel_name(function.name) for cubin in cubins_of(library, tools) for function in read_cubin(cubin.data)}


def kernel_code(kernel: str, architecture: str, instantiations: Collection[Instantiation]) -> KernelCode:
    """All instantiations of a kernel as one."""
    functions = [each.function for each in instantiations]
    histogram: Counter[str] = Counter()
    for each in instantiations:
        histogram.update(each.instructions.by_name)
    occupancies = [each.occupancy(architecture) for each in instantiations]
    known = [each for each in occupancies if each is not None]
    lowest = min(known, key=lambda each: each.share) if len(known) == len(occupancies) else None
    return KernelCode(
        kernel=kernel,
        architecture=architecture,
        instantiations=len(instantiations),
        registers=max(function.registers for function in functions),
        stack_bytes=max(function.stack_bytes for function in functions),
        shared_bytes=max(function.shared_bytes for function in functions),
        dynamic_shared_bytes=_most(each.dynamic_shared_bytes for each in instantiations),
        threads_per_block=_most(each.threads for each in instantiations),
        barriers=max(function.barriers for function in functions),
        occupancy=lowest.share if lowest else None,
        occupancy_limit=lowest.limited_by if lowest else None,
        local_memory_instructions=sum(each.instructions.local_memory for each in instantiations),
        local_memory_bytes=sum(each.instructions.local_memory_bytes for each in instantiations),
        code_bytes=INSTRUCTION_BYTES * histogram.total(),
        instructions={"total": histogram.total(), **dict(sorted(histogram.items()))},
        sha256=code_sha256((each.signature, each.function) for each in instantiations),
    )


def code_sha256(functions: Iterable[tuple[str, CubinFunction]]) -> str:
    """One hash of functions, each with its signature, in whatever order they come."""
    lines = sorted(f"{name} {function.sha256}\n" for name, function in functions)
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _instantiation(function: CubinFunction, instructions: Instructions) -> Instantiation:
    shape = launch_shape(function.name)
    # A kernel that touches shared memory and has none of its own gets it at launch; without a LaunchShape it is
    # unknown how much.
    unknown = shape is None and function.shared_bytes == 0 and instructions.use_shared_memory
    return Instantiation(
        signature=signature(function.name),
        function=function,
        instructions=instructions,
        threads=shape.threads if shape else function.most_threads,
        dynamic_shared_bytes=None if unknown else shape.dynamic_shared_bytes if shape else 0,
    )


def _most(values: Iterable[int | None]) -> int | None:
    known = list(values)
    return None if None in known else max(value for value in known if value is not None)

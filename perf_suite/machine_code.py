"""Facts of compiled kernels, read from the extension with cuobjdump. Needs no GPU and no torch.

A kernel here is a `__global__` function by its name; its template instantiations are taken together (the most
registers any of them needs, the sum of their instructions), so that a changed template parameter does not end
a series.
"""

import hashlib
import importlib.util
import re
import shutil
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_INSTRUCTION_BYTES = 16  # sm_70 and later
_ARCHITECTURE = re.compile(r"arch = (sm_\w+)")
_FUNCTION = re.compile(r"\s*Function\s*:?\s*([\w$.]+?):?\s*$")
_RESOURCES = re.compile(r"REG:(\d+) STACK:(\d+) SHARED:(\d+)")
# "/*0090*/   @!P0 BRA 0x110 ;": the predicate and the operands are part of the code, the address is not
_INSTRUCTION = re.compile(r"\s*/\*[0-9a-f]{4,}\*/\s+((?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_]*)[^;]*);")


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelCode:
    """One kernel on one architecture."""

    kernel: str
    architecture: str  # "sm_90a"
    registers: int  # of the instantiation that needs most, as are stack and static shared memory
    stack_bytes: int
    shared_bytes: int
    local_memory_instructions: int  # LDL and STL: spills, and arrays indexed at run time
    code_bytes: int
    instructions: dict[str, int]  # by mnemonic, and "total"; the padding behind the code is left out
    sha256: str  # of the instructions; the same for the same code, wherever and whenever it was compiled


@dataclass(slots=True)
class _Function:
    """One instantiation, as it is gathered."""

    registers: int = 0
    stack_bytes: int = 0
    shared_bytes: int = 0
    code: tuple[str, ...] = ()


def find_cuobjdump() -> Path | None:
    """Triton's own, which is the same wherever that Triton is installed; else CUDA's; else None."""
    spec = importlib.util.find_spec("triton")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        tool = Path(folder) / "backends/nvidia/bin/cuobjdump"
        if tool.exists():
            return tool
    found = shutil.which("cuobjdump")
    return Path(found) if found else None


def read_machine_code(library: Path, cuobjdump: Path) -> tuple[KernelCode, ...]:
    """Every kernel × architecture of a library, sorted; a library built for the CPU alone has none.

    Raises CalledProcessError if it cannot be read.
    """
    functions: dict[tuple[str, str], _Function] = defaultdict(_Function)
    for architecture, name, line in _lines_of_functions(_dump(cuobjdump, "-res-usage", library)):
        if found := _RESOURCES.search(line):
            function = functions[architecture, name]
            function.registers, function.stack_bytes, function.shared_bytes = map(int, found.groups())
    code: dict[tuple[str, str], list[str]] = defaultdict(list)
    for architecture, name, line in _lines_of_functions(_dump(cuobjdump, "-sass", library)):
        if found := _INSTRUCTION.match(line):
            code[architecture, name].append(" ".join(found.group(1).split()))
    for key, instructions in code.items():
        functions[key].code = _without_padding(instructions)
    kernels: dict[tuple[str, str], list[tuple[str, _Function]]] = defaultdict(list)
    for (architecture, name), function in functions.items():
        kernels[_kernel_name(name), architecture].append((_signature(name), function))
    return tuple(_summary(*key, instantiations) for key, instantiations in sorted(kernels.items()))


def _summary(kernel: str, architecture: str, instantiations: list[tuple[str, _Function]]) -> KernelCode:
    histogram: Counter[str] = Counter()
    digest = hashlib.sha256()
    for signature, function in sorted(instantiations, key=lambda item: item[0]):
        digest.update("\n".join((signature, *function.code, "")).encode())
        histogram.update(_mnemonic(instruction) for instruction in function.code)
    functions = [function for _, function in instantiations]
    return KernelCode(
        kernel=kernel,
        architecture=architecture,
        registers=max(function.registers for function in functions),
        stack_bytes=max(function.stack_bytes for function in functions),
        shared_bytes=max(function.shared_bytes for function in functions),
        local_memory_instructions=histogram["LDL"] + histogram["STL"],
        code_bytes=_INSTRUCTION_BYTES * histogram.total(),
        instructions={"total": histogram.total(), **dict(sorted(histogram.items()))},
        sha256=digest.hexdigest(),
    )


def _dump(cuobjdump: Path, what: str, library: Path) -> str:
    command = [str(cuobjdump), what, str(library)]
    done = subprocess.run(command, capture_output=True, text=True)
    if "does not contain device code" in done.stdout + done.stderr:  # a build for the CPU alone; told as an error
        return ""
    done.check_returncode()
    return done.stdout


def _lines_of_functions(dump: str) -> Iterator[tuple[str, str, str]]:
    """(architecture, mangled name, line) for the lines that follow a function's heading."""
    architecture = name = ""
    for line in dump.splitlines():
        if found := _ARCHITECTURE.match(line):
            architecture, name = found.group(1), ""
        elif found := _FUNCTION.match(line):
            name = found.group(1)
        elif name:
            yield architecture, name, line


def _without_padding(instructions: list[str]) -> tuple[str, ...]:
    end = len(instructions)
    while end and instructions[end - 1] == "NOP":
        end -= 1
    return tuple(instructions[:end])


def _mnemonic(instruction: str) -> str:
    words = instruction.split()
    return words[1 if words[0].startswith("@") else 0].partition(".")[0]


def _signature(mangled: str) -> str:
    """The mangled name without the compiler's tag for a file's anonymous namespace, which hashes its path."""
    return re.sub(r"\d+_GLOBAL__N__[0-9a-f]{8}_\d+_\w+?_cu_[0-9a-f]{8}", "_GLOBAL__N_", mangled)


def _kernel_name(mangled: str) -> str:
    """The function's own name: the last of the Itanium ABI's length-prefixed names before its arguments."""
    if not mangled.startswith("_Z"):
        return mangled
    rest = mangled[2:].removeprefix("N").lstrip("K")
    name = mangled
    while found := re.match(r"\d+", rest):
        length = int(found.group())
        name = rest[found.end() : found.end() + length]
        rest = rest[found.end() + length :]
    return name

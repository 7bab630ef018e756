"""The asv face of machine code that has been read."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from warpbench.compiled.machine_code import KernelCode

from ..compiled.session import CompiledCode as Cache

SETUP_TIMEOUT_S = 1800.0


class CodeMetrics(ABC):
    """The metrics of one kernel on one architecture, of the instantiation that is worst in each.

    Abstract, so that asv's discovery passes it over. asv tells setup_caches apart by file and line, so each class
    defines its own, in one line.
    """

    param_names: ClassVar[tuple[str, str]] = ("kernel", "architecture")
    params: ClassVar[tuple[list[str], list[str]]]
    version = "1"  # asv's default hashes this source, so any edit would orphan the history
    timeout = 60.0

    @abstractmethod
    def setup_cache(self) -> Cache:
        """What was read."""

    def setup(self, cache: Cache, kernel: str, architecture: str) -> None:
        """What the commit or the machine lacks is asv's n/a."""
        if (kernel, architecture) not in cache.found:
            raise NotImplementedError(cache.why_not(kernel, architecture))

    def track_registers(self, cache: Cache, kernel: str, architecture: str) -> int:
        """Registers a thread."""
        return _code(cache, kernel, architecture).registers

    def track_local_memory_instructions(self, cache: Cache, kernel: str, architecture: str) -> int:
        """LDL and STL instructions: spills, and arrays indexed at run time."""
        return _code(cache, kernel, architecture).local_memory_instructions

    def track_stack(self, cache: Cache, kernel: str, architecture: str) -> int:
        """Stack of a thread."""
        return _code(cache, kernel, architecture).stack_bytes

    def track_shared_memory(self, cache: Cache, kernel: str, architecture: str) -> int:
        """Static shared memory of a block, without the 1 KB that is the system's own."""
        return _code(cache, kernel, architecture).shared_bytes

    def track_dynamic_shared_memory(self, cache: Cache, kernel: str, architecture: str) -> int:
        """Shared memory that a block is launched with."""
        return known(_code(cache, kernel, architecture).dynamic_shared_bytes)

    def track_barriers(self, cache: Cache, kernel: str, architecture: str) -> int:
        """Named barriers of a block."""
        return _code(cache, kernel, architecture).barriers

    def track_occupancy(self, cache: Cache, kernel: str, architecture: str) -> float:
        """Theoretical occupancy."""
        return known(_code(cache, kernel, architecture).occupancy)

    def track_code_size(self, cache: Cache, kernel: str, architecture: str) -> int:
        """Bytes of all instantiations."""
        return _code(cache, kernel, architecture).code_bytes

    def track_instructions(self, cache: Cache, kernel: str, architecture: str) -> int:
        """Instructions of all instantiations."""
        return _code(cache, kernel, architecture).instructions["total"]

    track_registers.unit = "registers"  # type: ignore[attr-defined]
    track_local_memory_instructions.unit = "instructions"  # type: ignore[attr-defined]
    track_stack.unit = "bytes"  # type: ignore[attr-defined]
    track_shared_memory.unit = "bytes"  # type: ignore[attr-defined]
    track_shared_memory.version = "2"  # type: ignore[attr-defined]  # "1" counted the system's 1 KB on Hopper
    track_dynamic_shared_memory.unit = "bytes"  # type: ignore[attr-defined]
    track_barriers.unit = "barriers"  # type: ignore[attr-defined]
    track_occupancy.unit = "share"  # type: ignore[attr-defined]
    track_code_size.unit = "bytes"  # type: ignore[attr-defined]
    track_instructions.unit = "instructions"  # type: ignore[attr-defined]


def known(value: Any, why_not: str = "the compiled code does not tell") -> Any:
    """asv's n/a for what nobody knows."""
    if value is None:
        raise NotImplementedError(why_not)
    return value


def _code(cache: Cache, kernel: str, architecture: str) -> KernelCode:
    return cache.found[kernel, architecture]

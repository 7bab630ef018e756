"""asv benchmarks of compiled code: how T4 and RTX are watched on every commit, without the GPU."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from warpbench.compiled.machine_code import KernelCode

from ..compiled.session import CompiledCode as Cache
from ..compiled.session import Library, read_compile_times, read_kernels, read_library, read_twins
from ..compiled.watched_kernels import ARCHITECTURES, watched_operators

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


class CompiledCode(CodeMetrics):
    """What ptxas made of each CUDA kernel for each architecture."""

    measured_by_warpbench = True
    params = ([kernel for watched in watched_operators().values() for kernel in watched.kernels], list(ARCHITECTURES))

    def setup_cache(self) -> Cache:
        """One reading of the commit's library."""
        return read_kernels("benchmarks.compiled_code.CompiledCode")

    setup_cache.timeout = SETUP_TIMEOUT_S  # type: ignore[attr-defined]


class CompiledTwins(CodeMetrics):
    """What Triton made of each twin for each architecture."""

    measured_by_warpbench = True
    params = ([function for watched in watched_operators().values() for function in watched.twins], list(ARCHITECTURES))

    def setup_cache(self) -> Cache:
        """One compilation of each."""
        return read_twins("benchmarks.compiled_code.CompiledTwins")

    setup_cache.timeout = SETUP_TIMEOUT_S  # type: ignore[attr-defined]

    def track_compile_time(self, cache: Cache, kernel: str, architecture: str) -> float:
        """CPU time of all configurations together."""
        return known(cache.compile_s[kernel, architecture])

    track_compile_time.unit = "seconds"  # type: ignore[attr-defined]


class CompiledSources:
    """What the build spent on each CUDA source, for all architectures together."""

    measured_by_warpbench = True

    param_names = ("source",)
    params = ([source for watched in watched_operators().values() for source in watched.sources],)
    version = "1"
    timeout = 60.0

    def setup_cache(self) -> Cache:
        """One reading of the build's record."""
        return read_compile_times()

    def setup(self, cache: Cache, source: str) -> None:
        """What the build did not compile is asv's n/a."""
        if cache.compile_s.get((source,)) is None:
            raise NotImplementedError(cache.why_not(source))

    def track_compile_time(self, cache: Cache, source: str) -> float:
        """CPU time."""
        return known(cache.compile_s[(source,)])

    track_compile_time.unit = "seconds"  # type: ignore[attr-defined]


class CompiledLibrary:
    """The built extension as a whole, for all the architectures that it was compiled for."""

    measured_by_warpbench = True

    params = ()

    version = "1"
    timeout = 60.0

    def setup_cache(self) -> Library:
        """One reading of the library and of the build's record."""
        return read_library()

    def setup(self, cache: Library) -> None:
        """A commit without kernels, or whose build recorded no times, is asv's n/a."""
        if cache.why_not:
            raise NotImplementedError(cache.why_not)

    def track_build_time(self, cache: Library) -> float:
        """CPU time of compiling all CUDA sources."""
        return cache.compile_s

    def track_library_size(self, cache: Library) -> int:
        """Bytes of the extension's file."""
        return cache.size_bytes

    track_build_time.unit = "seconds"  # type: ignore[attr-defined]
    track_library_size.unit = "bytes"  # type: ignore[attr-defined]

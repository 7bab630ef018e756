"""asv benchmarks of compiled code: how T4 and RTX are watched on every commit, without the GPU."""

from typing import Any

from ..compiled_session import CompiledCodeResults, read_compiled_code
from ..watched_kernels import ARCHITECTURES, WATCHED_KERNELS


class CompiledCode:
    """What ptxas made of each kernel for each architecture."""

    param_names = ("kernel", "architecture")
    params = (
        [kernel for kernels in WATCHED_KERNELS.values() for kernel in kernels],
        list(ARCHITECTURES),
    )
    version = "1"
    timeout = 60.0

    def setup_cache(self) -> CompiledCodeResults:
        """One reading of the commit's library."""
        return read_compiled_code("benchmarks.compiled_code.CompiledCode")

    setup_cache.timeout = 600.0  # type: ignore[attr-defined]

    def setup(self, results: CompiledCodeResults, kernel: str, architecture: str) -> None:
        """What the library or the machine lacks is asv's n/a."""
        if results.unavailable:
            raise NotImplementedError(results.unavailable)
        if (kernel, architecture) not in results.kernels:
            raise NotImplementedError(f"this commit's library has no {kernel} for {architecture}")

    def track_registers(self, results: CompiledCodeResults, kernel: str, architecture: str) -> Any:
        """Registers a thread, of the instantiation that needs most."""
        return results.kernels[kernel, architecture].registers

    def track_local_memory_instructions(self, results: CompiledCodeResults, kernel: str, architecture: str) -> Any:
        """LDL and STL instructions: spills, and arrays indexed at run time."""
        return results.kernels[kernel, architecture].local_memory_instructions

    def track_shared_memory(self, results: CompiledCodeResults, kernel: str, architecture: str) -> Any:
        """Static shared memory of a block."""
        return results.kernels[kernel, architecture].shared_bytes

    def track_code_size(self, results: CompiledCodeResults, kernel: str, architecture: str) -> Any:
        """Bytes of all instantiations."""
        return results.kernels[kernel, architecture].code_bytes

    def track_instructions(self, results: CompiledCodeResults, kernel: str, architecture: str) -> Any:
        """Instructions of all instantiations."""
        return results.kernels[kernel, architecture].instructions["total"]

    track_registers.unit = "registers"  # type: ignore[attr-defined]
    track_local_memory_instructions.unit = "instructions"  # type: ignore[attr-defined]
    track_shared_memory.unit = "bytes"  # type: ignore[attr-defined]
    track_code_size.unit = "bytes"  # type: ignore[attr-defined]
    track_instructions.unit = "instructions"  # type: ignore[attr-defined]

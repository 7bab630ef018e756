"""The metrics that asv records of compiled kernels, and their context records. No torch here."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

from ..records import CompiledRecord
from .machine_code import KernelCode

Combination = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadCode:
    """What was read, by the parameters of an asv class, and why of other combinations nothing was."""

    found: Mapping[Combination, KernelCode]
    unavailable: Mapping[Combination, str]  # under () what holds for all without a reason of their own
    compile_s: Mapping[Combination, float | None] = field(default_factory=dict)

    def why_not(self, *combination: str) -> str:
        """Why a combination has no number."""
        return self.unavailable.get(combination) or self.unavailable[()]


def compiled_record(
    code: KernelCode,
    *,
    benchmark: str,
    operator: str,
    implementation: str,
    run: str = "",
    compile_s: float | None = None,
) -> CompiledRecord:
    """The context file's record of a kernel's code."""
    return CompiledRecord(
        run=run,
        benchmark=benchmark,
        operator=operator,
        implementation=implementation,
        compile_s=compile_s,
        **asdict(code),
    )


class CodeMetrics(ABC):
    """The metrics of one kernel on one architecture, of the instantiation that is worst in each.

    Abstract, so that asv's discovery passes it over. asv distinguishes setup_caches by file and line, so each class
    defines its own, in one line.
    """

    param_names: ClassVar[tuple[str, str]] = ("kernel", "architecture")
    params: ClassVar[tuple[list[str], list[str]]]
    version = "1"  # asv's default hashes this source, so any edit would orphan the history
    timeout = 60.0
    measured_by_warpbench = True

    @abstractmethod
    def setup_cache(self) -> Any:
        """What was read."""

    def code(self, cache: Any) -> ReadCode:
        """This class's part of what setup_cache returned."""
        read: ReadCode = cache
        return read

    def setup(self, cache: Any, kernel: str, architecture: str) -> None:
        """What the commit or the machine lacks is asv's n/a."""
        code = self.code(cache)
        if (kernel, architecture) not in code.found:
            raise NotImplementedError(code.why_not(kernel, architecture))

    def track_registers(self, cache: Any, kernel: str, architecture: str) -> int:
        """Registers a thread."""
        return self._found(cache, kernel, architecture).registers

    def track_local_memory_instructions(self, cache: Any, kernel: str, architecture: str) -> int:
        """LDL and STL instructions: spills, and arrays indexed at run time."""
        return self._found(cache, kernel, architecture).local_memory_instructions

    def track_stack(self, cache: Any, kernel: str, architecture: str) -> int:
        """Stack of a thread."""
        return self._found(cache, kernel, architecture).stack_bytes

    def track_shared_memory(self, cache: Any, kernel: str, architecture: str) -> int:
        """Static shared memory of a block, without the 1 KB that is the system's own."""
        return self._found(cache, kernel, architecture).shared_bytes

    def track_dynamic_shared_memory(self, cache: Any, kernel: str, architecture: str) -> int:
        """Shared memory that a block is launched with."""
        return int(known(self._found(cache, kernel, architecture).dynamic_shared_bytes))

    def track_barriers(self, cache: Any, kernel: str, architecture: str) -> int:
        """Named barriers of a block."""
        return self._found(cache, kernel, architecture).barriers

    def track_occupancy(self, cache: Any, kernel: str, architecture: str) -> float:
        """Theoretical occupancy."""
        return float(known(self._found(cache, kernel, architecture).occupancy))

    def track_code_size(self, cache: Any, kernel: str, architecture: str) -> int:
        """Bytes of all instantiations."""
        return self._found(cache, kernel, architecture).code_bytes

    def track_instructions(self, cache: Any, kernel: str, architecture: str) -> int:
        """Instructions of all instantiations."""
        return self._found(cache, kernel, architecture).instructions["total"]

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

    def _found(self, cache: Any, kernel: str, architecture: str) -> KernelCode:
        return self.code(cache).found[kernel, architecture]


def known(value: Any, why_not: str = "not known from the compiled code") -> Any:
    """The value. Raises NotImplementedError, asv's n/a, for None."""
    if value is None:
        raise NotImplementedError(why_not)
    return value

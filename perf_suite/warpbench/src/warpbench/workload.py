"""One operator at one shape and dtype, as the processes of a session exchange it. No torch here."""

from collections.abc import Mapping
from dataclasses import dataclass

from .cost import Cost
from .records import WorkloadRecord

ANY_DEVICE = "any"


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One case of an operator. `source` is its KernelBenchmark class, "package.module:Class"."""

    operator: str
    name: str  # unique within the operator; asv's parameter value, so a new name starts a new series
    device: str  # "cuda", "cpu", or ANY_DEVICE: whichever the machine has
    dtype: str  # a key of cost.ELEMENT_BYTES, or cost.UNKNOWN_DTYPE
    parameters: Mapping[str, int | float | bool | str]
    cost: Cost
    implementations: tuple[str, ...]
    tolerance: float  # largest ||out - reference|| / ||reference|| that counts as right
    source: str = ""
    baselines: tuple[str, ...] = ()  # the implementations that others wrote
    controls: tuple[str, ...] = ()  # the implementations that no commit changes
    seed: int = 20250
    arithmetic: str | None = None  # dtype of its products, a key of Ceilings.flops, where it is not the operands' own
    replayed: bool = False  # timed as a CUDA graph's replay too, however many bytes it moves
    energy_of: tuple[str, ...] = ()  # implementations whose energy is measured too, for a second each

    @property
    def products(self) -> str:
        """The dtype whose throughput bounds it."""
        return self.arithmetic or self.dtype

    @property
    def kernels(self) -> tuple[str, ...]:
        """The implementations that are ours."""
        return tuple(name for name in self.implementations if name not in (*self.baselines, *self.controls))


def workload_record(run: str, benchmark: str, workload: Workload) -> WorkloadRecord:
    """The record of `workload` in the run of this name, measured under the asv class `benchmark`."""
    return WorkloadRecord(
        run=run,
        benchmark=benchmark,
        operator=workload.operator,
        workload=workload.name,
        parameters=workload.parameters,
        dtype=workload.products,
        flops=workload.cost.flops,
        bytes=workload.cost.bytes,
        kernels=workload.kernels,
        baselines=workload.baselines,
        controls=workload.controls,
    )

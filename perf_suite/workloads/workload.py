"""What is timed: one operator at one shape and dtype."""

from collections.abc import Mapping
from dataclasses import dataclass

from ..costs import Cost

# unfused: several of our operators, where one does all of it; unquantized: our operator on the numbers as they were.
KERNELS = ("warpwatch", "triton", "unfused", "unquantized")
BASELINES = ("sdpa", "sdpa_flash", "cublas", "eager", "torch_compile")
CONTROLS = ("canary",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One row of the catalogue. Inputs, reference and implementations are found by the operator's name."""

    operator: str
    name: str  # unique within the operator; asv's parameter value, so a new name starts a new series
    device: str  # "cuda" or "cpu": the machine on which the row is measured
    dtype: str  # a key of costs.ELEMENT_BYTES
    parameters: Mapping[str, int | bool]
    cost: Cost
    implementations: tuple[str, ...]
    tolerance: float  # largest ||out - reference|| / ||reference|| that counts as right
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
        return tuple(name for name in self.implementations if name in KERNELS)

    @property
    def baselines(self) -> tuple[str, ...]:
        """The rivals."""
        return tuple(name for name in self.implementations if name in BASELINES)

    @property
    def controls(self) -> tuple[str, ...]:
        """What no commit changes."""
        return tuple(name for name in self.implementations if name in CONTROLS)

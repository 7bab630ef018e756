"""Inputs of reduce_sum."""

from dataclasses import dataclass

import torch

from warpbench.workload import Workload

from ..references.reduce_sum import reduce_sum as reference

DIM = 1  # of (outer, reduced, inner)


@dataclass(slots=True, kw_only=True)
class ReduceSumInputs:
    """x (outer, reduced, inner) in the workload's dtype, to be summed over `reduced`."""

    x: torch.Tensor

    def activations(self) -> tuple[torch.Tensor, ...]:
        """x."""
        return (self.x,)

    def expected(self) -> torch.Tensor:
        """The reference of this call, (outer, 1, inner): a dimension is left where all are summed."""
        return reference(self.x, (DIM,), keepdim=True)


def make(workload: Workload, generator: torch.Generator, dtype: torch.dtype) -> ReduceSumInputs:
    """Normal x: sums that cancel to about the root of their number, so that what is lost on the way shows."""
    p = workload.parameters
    shape = (p["outer"], p["reduced"], p["inner"])
    return ReduceSumInputs(x=torch.randn(shape, generator=generator, device=generator.device, dtype=dtype))

"""Inputs of linear_silu."""

from dataclasses import dataclass

import torch

from warpbench.workload import Workload

from ..references.linear_silu import linear_silu as reference


@dataclass(slots=True, kw_only=True)
class LinearSiluInputs:
    """x (rows, K), weight (N, K), both in the workload's dtype."""

    x: torch.Tensor
    weight: torch.Tensor

    def activations(self) -> tuple[torch.Tensor, ...]:
        """x; the weight belongs to the model."""
        return (self.x,)

    def expected(self) -> torch.Tensor:
        """The reference of this call."""
        return reference(self.x, self.weight)


def make(workload: Workload, generator: torch.Generator, dtype: torch.dtype) -> LinearSiluInputs:
    """Normal x, and a weight such that the products have a variance of one."""
    p = workload.parameters

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator, device=generator.device, dtype=dtype)

    return LinearSiluInputs(
        x=normal(p["rows"], p["depth"]), weight=normal(p["outputs"], p["depth"]) * p["depth"] ** -0.5
    )

"""Inputs of linear_gelu."""

from dataclasses import dataclass

import torch

from warpbench.workload import Workload

from ..references.linear_gelu import linear_gelu as reference


@dataclass(slots=True, kw_only=True)
class LinearGeluInputs:
    """x (rows, K), weight (N, K), bias (N,), all in the workload's dtype."""

    x: torch.Tensor
    weight: torch.Tensor
    bias: torch.Tensor
    approximate: str

    def activations(self) -> tuple[torch.Tensor, ...]:
        """x; weight and bias belong to the model."""
        return (self.x,)

    def expected(self) -> torch.Tensor:
        """The reference of this call."""
        return reference(self.x, self.weight, self.bias, self.approximate)


def make(workload: Workload, generator: torch.Generator, dtype: torch.dtype) -> LinearGeluInputs:
    """Normal x and bias, and a weight such that the products have a variance of one."""
    p = workload.parameters
    device = generator.device

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator, device=device, dtype=dtype)

    return LinearGeluInputs(
        x=normal(p["rows"], p["depth"]),
        weight=normal(p["outputs"], p["depth"]) * p["depth"] ** -0.5,
        bias=normal(p["outputs"]),
        approximate="tanh" if p["tanh"] else "none",
    )

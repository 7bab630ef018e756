"""Inputs of swiglu."""

from dataclasses import dataclass

import torch

from warpbench.workload import Workload

from ..references.swiglu import swiglu as reference


@dataclass(slots=True, kw_only=True)
class SwigluInputs:
    """x (rows, K), gate_weight and up_weight (N, K), in the workload's dtype; no bias, as in Llama."""

    x: torch.Tensor
    gate_weight: torch.Tensor
    up_weight: torch.Tensor

    def activations(self) -> tuple[torch.Tensor, ...]:
        """x; the weights belong to the model."""
        return (self.x,)

    def expected(self) -> torch.Tensor:
        """The reference of this call."""
        return reference(self.x, self.gate_weight, self.up_weight)


def make(workload: Workload, generator: torch.Generator, dtype: torch.dtype) -> SwigluInputs:
    """Normal x, and weights such that the products have a variance of one."""
    p = workload.parameters
    device = generator.device

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator, device=device, dtype=dtype)

    return SwigluInputs(
        x=normal(p["rows"], p["depth"]),
        gate_weight=normal(p["outputs"], p["depth"]) * p["depth"] ** -0.5,
        up_weight=normal(p["outputs"], p["depth"]) * p["depth"] ** -0.5,
    )

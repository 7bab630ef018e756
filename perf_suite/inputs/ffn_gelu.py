"""Inputs of ffn_gelu."""

from dataclasses import dataclass

import torch

from warpbench.workload import Workload

from ..references.ffn_gelu import ffn_gelu as reference


@dataclass(slots=True, kw_only=True)
class FfnGeluInputs:
    """x (rows, K), up_weight (H, K), down_weight (K, H) and their biases, all in the workload's dtype."""

    x: torch.Tensor
    up_weight: torch.Tensor
    up_bias: torch.Tensor
    down_weight: torch.Tensor
    down_bias: torch.Tensor
    approximate: str

    def activations(self) -> tuple[torch.Tensor, ...]:
        """x; weights and biases belong to the model."""
        return (self.x,)

    def expected(self) -> torch.Tensor:
        """The reference of this call."""
        return reference(self.x, self.up_weight, self.up_bias, self.down_weight, self.down_bias, self.approximate)


def make(workload: Workload, generator: torch.Generator, dtype: torch.dtype) -> FfnGeluInputs:
    """Normal x and biases, and weights such that the products have a variance of about one."""
    p = workload.parameters
    depth, hidden = p["depth"], p["outputs"]

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator, device=generator.device, dtype=dtype)

    return FfnGeluInputs(
        x=normal(p["rows"], depth),
        up_weight=normal(hidden, depth) * depth**-0.5,
        up_bias=normal(hidden),
        down_weight=normal(depth, hidden) * hidden**-0.5,
        down_bias=normal(depth),
        approximate="tanh" if p["tanh"] else "none",
    )

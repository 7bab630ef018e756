"""Inputs of layer_norm."""

from dataclasses import dataclass

import torch

from warpbench.output import Output
from warpbench.workload import Workload

from ..references.layer_norm import add_layer_norm, layer_norm


@dataclass(slots=True, kw_only=True)
class LayerNormInputs:
    """x (rows, cols) and, where there is one, residual of the same shape; weight and bias (cols); all of one dtype."""

    x: torch.Tensor
    residual: torch.Tensor | None
    weight: torch.Tensor
    bias: torch.Tensor

    def activations(self) -> tuple[torch.Tensor, ...]:
        """x and residual; weight and bias belong to the model."""
        return (self.x,) if self.residual is None else (self.x, self.residual)

    def expected(self) -> Output:
        """The normalised rows and, where there is a residual, its sum with x."""
        if self.residual is None:
            return layer_norm(self.x, self.weight, self.bias)
        return add_layer_norm(self.x, self.residual, self.weight, self.bias)


def make(workload: Workload, generator: torch.Generator, dtype: torch.dtype) -> LayerNormInputs:
    """Normal rows, weights between 0.5 and 1.5, normal biases."""
    p = workload.parameters
    device = generator.device
    shape = (p["rows"], p["cols"])

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator, device=device, dtype=dtype)

    return LayerNormInputs(
        x=normal(*shape),
        residual=normal(*shape) if p["residual"] else None,
        weight=(torch.rand(p["cols"], generator=generator, device=device) + 0.5).to(dtype),
        bias=normal(p["cols"]),
    )

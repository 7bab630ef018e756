"""Inputs of rms_norm."""

from dataclasses import dataclass

import torch

from warpbench.output import Output
from warpbench.workload import Workload

from ..references.rms_norm import add_rms_norm, rms_norm


@dataclass(slots=True, kw_only=True)
class RmsNormInputs:
    """x (rows, cols) and, where there is one, residual of the same shape; weight (cols); all of one dtype."""

    x: torch.Tensor
    residual: torch.Tensor | None
    weight: torch.Tensor

    def activations(self) -> tuple[torch.Tensor, ...]:
        """x and residual; the weight belongs to the model."""
        return (self.x,) if self.residual is None else (self.x, self.residual)

    def expected(self) -> Output:
        """The normalised rows and, where there is a residual, its sum with x."""
        if self.residual is None:
            return rms_norm(self.x, self.weight)
        return add_rms_norm(self.x, self.residual, self.weight)


def make(workload: Workload, generator: torch.Generator, dtype: torch.dtype) -> RmsNormInputs:
    """Normal rows, and weights between 0.5 and 1.5."""
    p = workload.parameters
    device = generator.device
    shape = (p["rows"], p["cols"])

    def normal() -> torch.Tensor:
        return torch.randn(shape, generator=generator, device=device, dtype=dtype)

    return RmsNormInputs(
        x=normal(),
        residual=normal() if p["residual"] else None,
        weight=(torch.rand(p["cols"], generator=generator, device=device) + 0.5).to(dtype),
    )

"""Inputs of the controls."""

from dataclasses import dataclass

import torch

from ..references import control as references
from ..workloads.workload import Workload

_SCALE = 3.0  # STREAM's


@dataclass(slots=True, kw_only=True)
class TriadInputs:
    """b, c (elements) in the workload's dtype."""

    b: torch.Tensor
    c: torch.Tensor
    scale: float = _SCALE

    def activations(self) -> tuple[torch.Tensor, ...]:
        """b alone: arrays of this size are kept as few as it takes to tell a stale result."""
        return (self.b,)

    def expected(self) -> torch.Tensor:
        """The reference of this call."""
        return references.triad(self.b, self.c, self.scale)


@dataclass(slots=True, kw_only=True)
class MatmulInputs:
    """x (rows, depth), weight (outputs, depth) in the workload's dtype."""

    x: torch.Tensor
    weight: torch.Tensor

    def activations(self) -> tuple[torch.Tensor, ...]:
        """x; the weight stays."""
        return (self.x,)

    def expected(self) -> torch.Tensor:
        """The reference of this call."""
        return references.matmul(self.x, self.weight)


def make(workload: Workload, generator: torch.Generator, dtype: torch.dtype) -> TriadInputs | MatmulInputs:
    """Normal tensors; the weight is scaled by 1 / sqrt(depth), so that the results are normal too."""
    p = workload.parameters

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator, device=generator.device, dtype=dtype)

    if "elements" in p:
        return TriadInputs(b=normal(p["elements"]), c=normal(p["elements"]))
    weight = normal(p["outputs"], p["depth"]) * p["depth"] ** -0.5
    return MatmulInputs(x=normal(p["rows"], p["depth"]), weight=weight)

"""Inputs of rope."""

from dataclasses import dataclass

import torch

from ..references.rope import rope as reference
from ..workloads.workload import Workload

_BASE = 10000.0


@dataclass(slots=True, kw_only=True)
class RopeInputs:
    """x (batch, heads, seq, head_dim) in the workload's dtype; cos, sin (seq, head_dim / 2) fp32."""

    x: torch.Tensor
    cos: torch.Tensor
    sin: torch.Tensor
    interleaved: bool

    def activations(self) -> tuple[torch.Tensor, ...]:
        """x; the tables belong to the model."""
        return (self.x,)

    def expected(self) -> torch.Tensor:
        """The reference of this call."""
        return reference(self.x, self.cos, self.sin, self.interleaved)


def make(workload: Workload, generator: torch.Generator, dtype: torch.dtype) -> RopeInputs:
    """Normal x, and the angles of positions 0, 1, 2 ... from a random start, so that none is the identity."""
    p = workload.parameters
    device = generator.device
    shape = (p["batch"], p["heads"], p["seq"], p["head_dim"])
    x = torch.randn(shape, generator=generator, device=device, dtype=dtype)
    half = p["head_dim"] // 2
    start = torch.randint(1, 1000, (1,), generator=generator, device=device)
    frequencies = _BASE ** (-torch.arange(half, device=device, dtype=torch.float64) / half)
    angles = (start + torch.arange(p["seq"], device=device))[:, None] * frequencies
    return RopeInputs(x=x, cos=angles.cos().float(), sin=angles.sin().float(), interleaved=bool(p["interleaved"]))

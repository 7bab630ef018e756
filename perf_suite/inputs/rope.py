"""Inputs of rope."""

from dataclasses import dataclass

import torch

from warpbench.workload import Workload

from ..references.rope import rope as reference
from ..references.rope import rope_computed

_BASE = 10000.0


@dataclass(slots=True, kw_only=True)
class RopeInputs:
    """x (batch, heads, seq, head_dim) in the workload's dtype; cos, sin (seq, head_dim / 2) fp32, or positions."""

    x: torch.Tensor
    cos: torch.Tensor
    sin: torch.Tensor
    interleaved: bool
    positions: torch.Tensor | None = None  # (batch) int64, of each first row, where angles are computed
    base: float = _BASE

    def activations(self) -> tuple[torch.Tensor, ...]:
        """x; the tables belong to the model."""
        return (self.x,)

    def expected(self) -> torch.Tensor:
        """The reference of this call."""
        if self.positions is None:
            return reference(self.x, self.cos, self.sin, self.interleaved)
        return rope_computed(self.x, self.positions, self.base, self.interleaved)


def make(workload: Workload, generator: torch.Generator, dtype: torch.dtype) -> RopeInputs:
    """Normal x, and the angles of positions 0, 1, 2 ... from a random start, so that none is the identity.

    Where they are computed, each sequence has a start of its own, up to 100000.
    """
    p = workload.parameters
    device = generator.device
    shape = (p["batch"], p["heads"], p["seq"], p["head_dim"])
    x = torch.randn(shape, generator=generator, device=device, dtype=dtype)
    start = torch.randint(1, 1000, (1,), generator=generator, device=device)
    angles = (start + torch.arange(p["seq"], device=device))[:, None] * _frequencies(p["head_dim"] // 2, device)
    positions = None
    if p.get("computed"):
        positions = torch.randint(1, 100_000, (p["batch"],), generator=generator, device=device)
    return RopeInputs(
        x=x, cos=angles.cos().float(), sin=angles.sin().float(), interleaved=bool(p["interleaved"]), positions=positions
    )


def _frequencies(half: int, device: torch.device) -> torch.Tensor:
    return _BASE ** (-torch.arange(half, device=device, dtype=torch.float64) / half)

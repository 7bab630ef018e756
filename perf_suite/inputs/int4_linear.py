"""Inputs of int4_linear."""

from dataclasses import dataclass

import torch

from warpbench.workload import Workload

from ..references.int4_linear import int4_linear as reference


@dataclass(slots=True, kw_only=True)
class Int4LinearInputs:
    """x (rows, K); packed (N, K / 2) uint8, low nibble at even k; scales (N, K / group_size) in x's dtype.

    zero_points (N, K / group_size) uint8, or None for 8 everywhere.
    """

    x: torch.Tensor
    packed: torch.Tensor
    scales: torch.Tensor
    zero_points: torch.Tensor | None
    group_size: int

    def activations(self) -> tuple[torch.Tensor, ...]:
        """x; the weight belongs to the model, and an implementation may rearrange it ahead."""
        return (self.x,)

    def expected(self) -> torch.Tensor:
        """The reference of this call."""
        return reference(self.x, self.packed, self.scales, self.group_size, self.zero_points)


def make(workload: Workload, generator: torch.Generator, dtype: torch.dtype) -> Int4LinearInputs:
    """Normal x, uniform nibbles, and scales near 0.2 / sqrt(K), so that results have a variance near one.

    The nibbles are drawn, not quantised from a weight: the kernels' own quantiser is not what is judged here.
    """
    p = workload.parameters
    device = generator.device
    packed_shape = (p["outputs"], p["depth"] // 2)
    groups = (p["outputs"], p["depth"] // p["group_size"])
    spread = torch.rand(groups, generator=generator, device=device) + 0.5
    inputs = Int4LinearInputs(
        x=torch.randn((p["rows"], p["depth"]), generator=generator, device=device, dtype=dtype),
        packed=torch.randint(0, 256, packed_shape, generator=generator, device=device, dtype=torch.uint8),
        scales=(spread * 0.2 * p["depth"] ** -0.5).to(dtype),
        zero_points=None,
        group_size=p["group_size"],
    )
    if p["zeros"]:
        inputs.zero_points = torch.randint(6, 10, groups, generator=generator, device=device, dtype=torch.uint8)
    return inputs

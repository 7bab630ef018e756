"""Inputs of int8_linear."""

from dataclasses import dataclass

import torch

from warpbench.workload import Workload

from ..references.int8_linear import int8_linear as reference

_ROW_BYTES = 16


@dataclass(slots=True, kw_only=True)
class Int8LinearInputs:
    """x (rows, K); weight (N, K padded to a multiple of 16) int8; weight_scales (N,) fp32."""

    x: torch.Tensor
    weight: torch.Tensor
    weight_scales: torch.Tensor

    def activations(self) -> tuple[torch.Tensor, ...]:
        """x; the weight belongs to the model, and an implementation may rearrange it ahead."""
        return (self.x,)

    def expected(self) -> torch.Tensor:
        """The reference of this call."""
        return reference(self.x, self.weight, self.weight_scales)


def make(workload: Workload, generator: torch.Generator, dtype: torch.dtype) -> Int8LinearInputs:
    """x that 8 bits hold exactly, uniform weights, and scales such that results have a variance near one.

    Each row of x is integers (no zeros), normal with one of them at 127 or -127, times a power of two. So quantizing
    loses nothing, the baselines that do not quantize have the same answer, and the gate is as narrow as rounding is.
    What quantizing does to any x is the kernels' own tests' business.
    """
    p = workload.parameters
    device = generator.device
    rows, depth, outputs = p["rows"], p["depth"], p["outputs"]
    normal = torch.randn((rows, depth), generator=generator, device=device) * 32
    steps = normal.abs().ceil().clamp(1, 127).copysign(normal)
    largest = torch.randint(0, depth, (rows, 1), generator=generator, device=device)
    sign = torch.randint(0, 2, (rows, 1), generator=generator, device=device) * 2 - 1
    steps.scatter_(1, largest, 127.0 * sign)
    powers = 2.0 ** torch.randint(-7, -3, (rows, 1), generator=generator, device=device)
    weight = torch.randint(-127, 128, (outputs, depth), generator=generator, device=device, dtype=torch.int8)
    spread = torch.rand((outputs,), generator=generator, device=device) + 0.5
    return Int8LinearInputs(
        x=(steps * powers).to(dtype),
        weight=torch.nn.functional.pad(weight, (0, -depth % _ROW_BYTES)),
        weight_scales=spread * 0.0136 * depth**-0.5,  # a uniform weight has a deviation of 73 steps
    )

"""Inputs of int8_weight_linear."""

from dataclasses import dataclass

import torch

from warpbench.workload import Workload

from ..references.int8_weight_linear import int8_weight_linear as reference

_ROW_BYTES = 16


@dataclass(slots=True, kw_only=True)
class Int8WeightLinearInputs:
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


def make(workload: Workload, generator: torch.Generator, dtype: torch.dtype) -> Int8WeightLinearInputs:
    """Normal x, uniform weights, and scales such that results have a variance near one."""
    p = workload.parameters
    device = generator.device
    depth, outputs = p["depth"], p["outputs"]
    weight = torch.randint(-127, 128, (outputs, depth), generator=generator, device=device, dtype=torch.int8)
    spread = torch.rand((outputs,), generator=generator, device=device) + 0.5
    return Int8WeightLinearInputs(
        x=torch.randn((p["rows"], depth), generator=generator, device=device, dtype=dtype),
        weight=torch.nn.functional.pad(weight, (0, -depth % _ROW_BYTES)),
        weight_scales=spread * 0.0136 * depth**-0.5,  # a uniform weight has a deviation of 73 steps
    )

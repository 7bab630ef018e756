"""Implementations of int8_linear."""

import torch

from warpbench.prepared import Prepared
from warpbench.torch_compile import compiled

from ..inputs.int8_linear import Int8LinearInputs
from ..warpwatch_operators import triton_operator, warpwatch_operator

_FEWEST_ROWS = 32  # torch._int_mm wants more than 16 on a GPU


def warpwatch(inputs: Int8LinearInputs) -> Prepared:
    """The CUDA C++ or CPU kernel of the commit."""
    linear = warpwatch_operator("int8_linear")
    return Prepared(run=lambda: linear(inputs.x, inputs.weight, inputs.weight_scales))


def triton(inputs: Int8LinearInputs) -> Prepared:
    """Its Triton twin."""
    linear = triton_operator("int8_linear")
    return Prepared(run=lambda: linear(inputs.x, inputs.weight, inputs.weight_scales))


def cublas(inputs: Int8LinearInputs) -> Prepared:
    """What 8 bits are to beat: the product with the weight dequantised ahead, all in x's dtype."""
    steps = inputs.weight[:, : inputs.x.shape[-1]].double()
    weight = (steps * inputs.weight_scales.double().unsqueeze(-1)).to(inputs.x.dtype)
    return Prepared(run=lambda: torch.nn.functional.linear(inputs.x, weight))


def eager(inputs: Int8LinearInputs) -> Prepared:
    """Quantize, torch._int_mm (cuBLASLt's product of 8-bit integers), scale: in plain PyTorch."""
    return Prepared(run=lambda: _formula(inputs.x, inputs.weight, inputs.weight_scales))


def torch_compile(inputs: Int8LinearInputs) -> Prepared:
    """The same formula through torch.compile."""
    formula = compiled(_formula, inputs.x, inputs.weight)
    return Prepared(run=lambda: formula(inputs.x, inputs.weight, inputs.weight_scales))


def _formula(x: torch.Tensor, weight: torch.Tensor, weight_scales: torch.Tensor) -> torch.Tensor:
    rows, depth = x.shape
    wide = x.float()
    scales = wide.abs().amax(dim=-1, keepdim=True).clamp(min=2.0**-100) / 127
    values = (wide / scales).round().clamp(-127, 127).to(torch.int8)
    values = torch.nn.functional.pad(values, (0, weight.shape[1] - depth, 0, max(0, _FEWEST_ROWS - rows)))
    sums = torch._int_mm(values, weight.t())[:rows]
    return (sums * scales * weight_scales).to(x.dtype)

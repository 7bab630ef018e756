"""Implementations of int8_weight_linear."""

import torch

from warpbench.prepared import Prepared
from warpbench.torch_compile import compiled

from ..inputs.int8_weight_linear import Int8WeightLinearInputs
from ..warpwatch_operators import triton_operator, warpwatch_operator


def warpwatch(inputs: Int8WeightLinearInputs) -> Prepared:
    """The CUDA C++ or CPU kernel of the commit."""
    linear = warpwatch_operator("int8_weight_linear")
    return Prepared(run=lambda: linear(inputs.x, inputs.weight, inputs.weight_scales))


def triton(inputs: Int8WeightLinearInputs) -> Prepared:
    """Its Triton twin."""
    linear = triton_operator("int8_weight_linear")
    return Prepared(run=lambda: linear(inputs.x, inputs.weight, inputs.weight_scales))


def cublas(inputs: Int8WeightLinearInputs) -> Prepared:
    """What 8 bits are to beat: the product with the weight dequantised ahead, in x's dtype."""
    steps = inputs.weight[:, : inputs.x.shape[-1]].double()
    weight = (steps * inputs.weight_scales.double().unsqueeze(-1)).to(inputs.x.dtype)
    return Prepared(run=lambda: torch.nn.functional.linear(inputs.x, weight))


def eager(inputs: Int8WeightLinearInputs) -> Prepared:
    """Dequantise in every call, then multiply, in plain PyTorch."""
    return Prepared(run=lambda: _formula(inputs.x, inputs.weight, inputs.weight_scales))


def torch_compile(inputs: Int8WeightLinearInputs) -> Prepared:
    """The same formula through torch.compile."""
    formula = compiled(_formula, inputs.x, inputs.weight)
    return Prepared(run=lambda: formula(inputs.x, inputs.weight, inputs.weight_scales))


def _formula(x: torch.Tensor, weight: torch.Tensor, weight_scales: torch.Tensor) -> torch.Tensor:
    wide = weight[:, : x.shape[-1]] * weight_scales[:, None]
    return torch.nn.functional.linear(x, wide.to(x.dtype))

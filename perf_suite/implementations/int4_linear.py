"""Implementations of int4_linear."""

import torch

from ..inputs.int4_linear import Int4LinearInputs
from ..references.int4_linear import dequantised
from . import Prepared
from .compiled_by_torch import compiled
from .warpwatch_operators import triton_operator, warpwatch_operator


def warpwatch(inputs: Int4LinearInputs) -> Prepared:
    """The CUDA C++ or CPU kernel of the commit."""
    linear = warpwatch_operator("int4_linear")
    return Prepared(run=lambda: linear(inputs.x, inputs.packed, inputs.scales, group_size=inputs.group_size))


def triton(inputs: Int4LinearInputs) -> Prepared:
    """Its Triton twin."""
    linear = triton_operator("int4_linear")
    return Prepared(run=lambda: linear(inputs.x, inputs.packed, inputs.scales, group_size=inputs.group_size))


def cublas(inputs: Int4LinearInputs) -> Prepared:
    """What 4 bits are to beat: the product with the weight dequantised ahead, in x's dtype."""
    weight = dequantised(inputs.packed, inputs.scales, inputs.group_size).to(inputs.x.dtype)
    return Prepared(run=lambda: torch.nn.functional.linear(inputs.x, weight))


def eager(inputs: Int4LinearInputs) -> Prepared:
    """Dequantise in every call, then multiply, in plain PyTorch."""
    return Prepared(run=lambda: _formula(inputs.x, inputs.packed, inputs.scales, inputs.group_size))


def torch_compile(inputs: Int4LinearInputs) -> Prepared:
    """The same formula through torch.compile."""
    formula = compiled(_formula, inputs.x, inputs.packed, inputs.scales)
    return Prepared(run=lambda: formula(inputs.x, inputs.packed, inputs.scales, inputs.group_size))


def _formula(x: torch.Tensor, packed: torch.Tensor, scales: torch.Tensor, group_size: int) -> torch.Tensor:
    nibbles = torch.stack((packed & 0xF, packed >> 4), dim=-1).view((*scales.shape, group_size))
    weight = (nibbles.to(x.dtype) - 8.0) * scales[..., None]
    return torch.nn.functional.linear(x, weight.flatten(-2))

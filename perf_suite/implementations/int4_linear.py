"""Implementations of int4_linear."""

import inspect
from collections.abc import Callable

import torch

from warpbench.prepared import Prepared, UnavailableError
from warpbench.torch_compile import compiled

from ..inputs.int4_linear import Int4LinearInputs
from ..references.int4_linear import dequantised
from ..warpwatch_operators import triton_operator, warpwatch_operator


def warpwatch(inputs: Int4LinearInputs) -> Prepared:
    """The CUDA C++ or CPU kernel of the commit."""
    return _prepared(inputs, warpwatch_operator("int4_linear"))


def triton(inputs: Int4LinearInputs) -> Prepared:
    """Its Triton twin."""
    return _prepared(inputs, triton_operator("int4_linear"))


def cublas(inputs: Int4LinearInputs) -> Prepared:
    """What 4 bits are to beat: the product with the weight dequantised ahead, in x's dtype."""
    weight = dequantised(inputs.packed, inputs.scales, inputs.group_size, inputs.zero_points).to(inputs.x.dtype)
    return Prepared(run=lambda: torch.nn.functional.linear(inputs.x, weight))


def eager(inputs: Int4LinearInputs) -> Prepared:
    """Dequantise in every call, then multiply, in plain PyTorch."""
    return Prepared(run=lambda: _formula(inputs.x, inputs.packed, inputs.scales, inputs.group_size, inputs.zero_points))


def torch_compile(inputs: Int4LinearInputs) -> Prepared:
    """The same formula through torch.compile."""
    formula = compiled(_formula, inputs.x, inputs.packed, inputs.scales)
    return Prepared(run=lambda: formula(inputs.x, inputs.packed, inputs.scales, inputs.group_size, inputs.zero_points))


def _prepared(inputs: Int4LinearInputs, linear: Callable[..., torch.Tensor]) -> Prepared:
    x, packed, scales, zeros = inputs.x, _in_order(inputs.packed), inputs.scales, inputs.zero_points
    if zeros is None:  # as every commit takes it
        return Prepared(run=lambda: linear(x, packed, scales, group_size=inputs.group_size))
    if "zero_points" not in inspect.signature(linear).parameters:
        raise UnavailableError("int4_linear of this commit takes no zero points")
    return Prepared(run=lambda: linear(x, packed, scales, zeros, group_size=inputs.group_size))


def _in_order(packed: torch.Tensor) -> torch.Tensor:
    # Commits that shuffle the weight do so ahead of any call; older ones take rows of two values a byte.
    try:
        from warpwatch.kernels import pack_int4
    except ImportError:
        return packed
    return pack_int4(torch.stack((packed & 0xF, packed >> 4), dim=-1).flatten(-2))


def _formula(
    x: torch.Tensor, packed: torch.Tensor, scales: torch.Tensor, group_size: int, zero_points: torch.Tensor | None
) -> torch.Tensor:
    nibbles = torch.stack((packed & 0xF, packed >> 4), dim=-1).view((*scales.shape, group_size))
    zeros = 8.0 if zero_points is None else zero_points.to(x.dtype)[..., None]
    weight = (nibbles.to(x.dtype) - zeros) * scales[..., None]
    return torch.nn.functional.linear(x, weight.flatten(-2))

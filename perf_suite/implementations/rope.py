"""Implementations of rope."""

import torch

from ..inputs.rope import RopeInputs
from . import Prepared
from .compiled_by_torch import compiled
from .warpwatch_operators import triton_operator, warpwatch_operator


def warpwatch(inputs: RopeInputs) -> Prepared:
    """The CUDA C++ or CPU kernel of the commit."""
    rope = warpwatch_operator("rope")
    return Prepared(run=lambda: rope(inputs.x, inputs.cos, inputs.sin, interleaved=inputs.interleaved))


def triton(inputs: RopeInputs) -> Prepared:
    """Its Triton twin."""
    rope = triton_operator("rope")
    return Prepared(run=lambda: rope(inputs.x, inputs.cos, inputs.sin, interleaved=inputs.interleaved))


def eager(inputs: RopeInputs) -> Prepared:
    """The formula in plain PyTorch, fp32 inside."""
    return Prepared(run=lambda: _formula(inputs.x, inputs.cos, inputs.sin, inputs.interleaved))


def torch_compile(inputs: RopeInputs) -> Prepared:
    """The same formula through torch.compile."""
    formula = compiled(_formula, inputs.x, inputs.cos)
    return Prepared(run=lambda: formula(inputs.x, inputs.cos, inputs.sin, inputs.interleaved))


def _formula(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, interleaved: bool) -> torch.Tensor:
    wide = x.float()
    if interleaved:
        first, second = wide[..., 0::2], wide[..., 1::2]
    else:
        first, second = wide.chunk(2, dim=-1)
    turned = (first * cos - second * sin, second * cos + first * sin)
    out = torch.stack(turned, dim=-1).flatten(-2) if interleaved else torch.cat(turned, dim=-1)
    return out.to(x.dtype)

"""Implementations of rope."""

from collections.abc import Callable

import torch

from warpbench.prepared import Prepared
from warpbench.torch_compile import compiled

from ..inputs.rope import RopeInputs
from ..warpwatch_operators import triton_operator, warpwatch_operator


def warpwatch(inputs: RopeInputs) -> Prepared:
    """The CUDA C++ or CPU kernel of the commit."""
    if inputs.positions is not None:
        return _computed(warpwatch_operator("rope_computed"), inputs)
    rope = warpwatch_operator("rope")
    return Prepared(run=lambda: rope(inputs.x, inputs.cos, inputs.sin, interleaved=inputs.interleaved))


def triton(inputs: RopeInputs) -> Prepared:
    """Its Triton twin."""
    if inputs.positions is not None:
        return _computed(triton_operator("rope", "rope_computed"), inputs)
    rope = triton_operator("rope")
    return Prepared(run=lambda: rope(inputs.x, inputs.cos, inputs.sin, interleaved=inputs.interleaved))


def eager(inputs: RopeInputs) -> Prepared:
    """The formula in plain PyTorch, fp32 inside."""
    if inputs.positions is not None:
        return _computed(turned_by_position, inputs)
    return Prepared(run=lambda: turned(inputs.x, inputs.cos, inputs.sin, inputs.interleaved))


def torch_compile(inputs: RopeInputs) -> Prepared:
    """The same formula through torch.compile."""
    if inputs.positions is not None:
        return _computed(compiled(turned_by_position, inputs.x, inputs.positions), inputs)
    formula = compiled(turned, inputs.x, inputs.cos)
    return Prepared(run=lambda: formula(inputs.x, inputs.cos, inputs.sin, inputs.interleaved))


def _computed(rope: Callable[..., torch.Tensor], inputs: RopeInputs) -> Prepared:
    return Prepared(run=lambda: rope(inputs.x, inputs.positions, base=inputs.base, interleaved=inputs.interleaved))


def turned_by_position(x: torch.Tensor, positions: torch.Tensor, base: float, interleaved: bool) -> torch.Tensor:
    """Angles in float64: in float32 those of position 100000 would be off by thousandths of a radian."""
    half = x.shape[-1] // 2
    frequencies = base ** (-torch.arange(half, device=x.device, dtype=torch.float64) / half)
    places = positions[:, None, None] + torch.arange(x.shape[2], device=x.device)[None, None, :]
    angles = places[..., None] * frequencies
    return turned(x, angles.cos().float(), angles.sin().float(), interleaved)


def turned(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, interleaved: bool) -> torch.Tensor:
    """The formula in plain PyTorch, fp32 inside."""
    wide = x.float()
    if interleaved:
        first, second = wide[..., 0::2], wide[..., 1::2]
    else:
        first, second = wide.chunk(2, dim=-1)
    pairs = (first * cos - second * sin, second * cos + first * sin)
    out = torch.stack(pairs, dim=-1).flatten(-2) if interleaved else torch.cat(pairs, dim=-1)
    return out.to(x.dtype)

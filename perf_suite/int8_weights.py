"""Weights of 8-bit integers with one scale an output, as int8_linear and int8_weight_linear take them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from warpbench import Prepared
from warpbench.lazy import torch

from .warpwatch_operators import library

if TYPE_CHECKING:
    from warpbench.draw import Draw

_ROW_BYTES = 16


def drawn(draw: Draw, *, outputs: int, depth: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Uniform weight (outputs, depth padded to a multiple of 16) int8 and scales (outputs,) fp32.

    The product with a normal x has a variance near one.
    """
    weight = draw.integers(-127, 128, (outputs, depth), torch.int8)
    spread = draw.uniform(outputs, low=0.5, high=1.5, dtype=torch.float32)
    padded = torch.nn.functional.pad(weight, (0, -depth % _ROW_BYTES))
    scales = spread * 0.0136 * depth**-0.5  # a uniform weight has a standard deviation of 73 steps
    return draw.constant(padded), draw.constant(scales)


def dequantised(x: torch.Tensor, weight: torch.Tensor, weight_scales: torch.Tensor) -> torch.Tensor:
    """The weight (outputs, depth of x) in x's dtype, rounded once."""
    steps = weight[:, : x.shape[-1]].double()
    return (steps * weight_scales.double().unsqueeze(-1)).to(x.dtype)


def torchao_linear(x: torch.Tensor, weight: torch.Tensor, weight_scales: torch.Tensor, config: Any) -> Prepared:
    """A linear layer of the dequantised weight, which torchao quantizes again by `config`, through torch.compile.

    torchao's quantized layers are meant to be compiled: in eager mode they dequantise in a launch of its own.
    """
    from torchao.quantization import quantize_

    layer = torch.nn.Linear(x.shape[-1], weight.shape[0], bias=False, device="meta", dtype=x.dtype)
    layer.weight = torch.nn.Parameter(dequantised(x, weight, weight_scales), requires_grad=False)
    quantize_(layer, config)
    torch.compiler.reset()
    compiled = torch.compile(layer, fullgraph=True, dynamic=False)
    return Prepared(run=lambda: compiled(x), backend=library("torchao"))

"""Implementations of swiglu."""

import torch

from warpbench.prepared import Prepared
from warpbench.torch_compile import compiled

from ..inputs.swiglu import SwigluInputs
from ..warpwatch_operators import triton_operator, warpwatch_operator


def warpwatch(inputs: SwigluInputs) -> Prepared:
    """cuBLAS's products and the CUDA C++ or CPU kernel of the commit behind them."""
    layer = warpwatch_operator("swiglu")
    return Prepared(run=lambda: layer(inputs.x, inputs.gate_weight, inputs.up_weight))


def triton(inputs: SwigluInputs) -> Prepared:
    """Its Triton twin, one launch."""
    layer = triton_operator("swiglu")
    return Prepared(run=lambda: layer(inputs.x, inputs.gate_weight, inputs.up_weight))


def eager(inputs: SwigluInputs) -> Prepared:
    """Two products of cuBLAS, silu and a product of elements, in plain PyTorch."""
    return Prepared(run=lambda: _formula(inputs.x, inputs.gate_weight, inputs.up_weight))


def torch_compile(inputs: SwigluInputs) -> Prepared:
    """The same formula through torch.compile."""
    formula = compiled(_formula, inputs.x, inputs.gate_weight)
    return Prepared(run=lambda: formula(inputs.x, inputs.gate_weight, inputs.up_weight))


def _formula(x: torch.Tensor, gate_weight: torch.Tensor, up_weight: torch.Tensor) -> torch.Tensor:
    gate = torch.nn.functional.linear(x, gate_weight)
    return torch.nn.functional.silu(gate) * torch.nn.functional.linear(x, up_weight)

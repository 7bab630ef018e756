"""Implementations of linear_gelu."""

import torch

from warpbench.prepared import Prepared
from warpbench.torch_compile import compiled

from ..inputs.linear_gelu import LinearGeluInputs
from ..warpwatch_operators import triton_operator, warpwatch_operator


def warpwatch(inputs: LinearGeluInputs) -> Prepared:
    """The CUDA C++ or CPU kernel of the commit."""
    linear = warpwatch_operator("linear_gelu")
    return Prepared(run=lambda: linear(inputs.x, inputs.weight, inputs.bias, approximate=inputs.approximate))


def triton(inputs: LinearGeluInputs) -> Prepared:
    """Its Triton twin."""
    linear = triton_operator("linear_gelu")
    return Prepared(run=lambda: linear(inputs.x, inputs.weight, inputs.bias, approximate=inputs.approximate))


def eager(inputs: LinearGeluInputs) -> Prepared:
    """cuBLAS's product with its bias, then a gelu, in plain PyTorch."""
    return Prepared(run=lambda: _formula(inputs.x, inputs.weight, inputs.bias, inputs.approximate))


def torch_compile(inputs: LinearGeluInputs) -> Prepared:
    """The same formula through torch.compile."""
    formula = compiled(_formula, inputs.x, inputs.weight)
    return Prepared(run=lambda: formula(inputs.x, inputs.weight, inputs.bias, inputs.approximate))


def _formula(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, approximate: str) -> torch.Tensor:
    return torch.nn.functional.gelu(torch.nn.functional.linear(x, weight, bias), approximate=approximate)

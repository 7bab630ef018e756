"""Implementations of linear_silu."""

import torch

from warpbench.prepared import Prepared
from warpbench.torch_compile import compiled

from ..inputs.linear_silu import LinearSiluInputs
from ..warpwatch_operators import triton_operator, warpwatch_operator


def warpwatch(inputs: LinearSiluInputs) -> Prepared:
    """The CUDA C++ or CPU kernel of the commit."""
    linear = warpwatch_operator("linear_silu")
    return Prepared(run=lambda: linear(inputs.x, inputs.weight))


def triton(inputs: LinearSiluInputs) -> Prepared:
    """Its Triton twin."""
    linear = triton_operator("linear_silu")
    return Prepared(run=lambda: linear(inputs.x, inputs.weight))


def eager(inputs: LinearSiluInputs) -> Prepared:
    """cuBLAS's product, then a SiLU, in plain PyTorch."""
    return Prepared(run=lambda: _formula(inputs.x, inputs.weight))


def torch_compile(inputs: LinearSiluInputs) -> Prepared:
    """The same formula through torch.compile."""
    formula = compiled(_formula, inputs.x, inputs.weight)
    return Prepared(run=lambda: formula(inputs.x, inputs.weight))


def _formula(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.silu(torch.nn.functional.linear(x, weight))

"""Implementations of reduce_sum."""

import torch

from warpbench.prepared import Prepared
from warpbench.torch_compile import compiled

from ..inputs.reduce_sum import DIM, ReduceSumInputs
from ..warpwatch_operators import triton_operator, warpwatch_operator


def warpwatch(inputs: ReduceSumInputs) -> Prepared:
    """The CUDA C++ or CPU kernel of the commit."""
    reduce_sum = warpwatch_operator("reduce_sum")
    return Prepared(run=lambda: reduce_sum(inputs.x, DIM, keepdim=True))


def triton(inputs: ReduceSumInputs) -> Prepared:
    """Its Triton twin."""
    reduce_sum = triton_operator("reduce_sum")
    return Prepared(run=lambda: reduce_sum(inputs.x, DIM, keepdim=True))


def eager(inputs: ReduceSumInputs) -> Prepared:
    """PyTorch's own sum."""
    return Prepared(run=lambda: _formula(inputs.x))


def torch_compile(inputs: ReduceSumInputs) -> Prepared:
    """The same through torch.compile."""
    formula = compiled(_formula, inputs.x)
    return Prepared(run=lambda: formula(inputs.x))


def _formula(x: torch.Tensor) -> torch.Tensor:
    return x.sum(dim=DIM, keepdim=True)

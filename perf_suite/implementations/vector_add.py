"""Implementations of vector_add."""

import torch

from warpbench.prepared import Prepared
from warpbench.torch_compile import compiled

from ..inputs.vector_add import VectorAddInputs
from ..warpwatch_operators import triton_operator, warpwatch_operator


def warpwatch(inputs: VectorAddInputs) -> Prepared:
    """The CUDA C++ or CPU kernel of the commit."""
    add = warpwatch_operator("vector_add")
    return Prepared(run=lambda: add(inputs.a, inputs.b))


def triton(inputs: VectorAddInputs) -> Prepared:
    """Its Triton twin."""
    add = triton_operator("vector_add")
    return Prepared(run=lambda: add(inputs.a, inputs.b))


def eager(inputs: VectorAddInputs) -> Prepared:
    """PyTorch's own addition."""
    return Prepared(run=lambda: inputs.a + inputs.b)


def torch_compile(inputs: VectorAddInputs) -> Prepared:
    """The same through torch.compile."""
    formula = compiled(_formula, inputs.a, inputs.b)
    return Prepared(run=lambda: formula(inputs.a, inputs.b))


def _formula(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a + b

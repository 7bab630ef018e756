"""Implementations of layer_norm; with a residual each gives the sum too."""

from collections.abc import Callable
from typing import Any

import torch

from warpbench.prepared import Prepared
from warpbench.torch_compile import compiled

from ..inputs.layer_norm import LayerNormInputs
from ..warpwatch_operators import triton_operator, warpwatch_operator


def warpwatch(inputs: LayerNormInputs) -> Prepared:
    """The CUDA C++ or CPU kernel of the commit."""
    if inputs.residual is None:
        norm = warpwatch_operator("layer_norm")
        return Prepared(run=lambda: norm(inputs.x, inputs.weight, inputs.bias))
    add_norm = warpwatch_operator("add_layer_norm")
    return Prepared(run=lambda: add_norm(inputs.x, inputs.residual, inputs.weight, inputs.bias))


def triton(inputs: LayerNormInputs) -> Prepared:
    """Its Triton twin."""
    if inputs.residual is None:
        norm = triton_operator("layer_norm")
        return Prepared(run=lambda: norm(inputs.x, inputs.weight, inputs.bias))
    add_norm = triton_operator("layer_norm", "add_layer_norm")
    return Prepared(run=lambda: add_norm(inputs.x, inputs.residual, inputs.weight, inputs.bias))


def eager(inputs: LayerNormInputs) -> Prepared:
    """PyTorch's own layer_norm, behind an addition where there is a residual."""
    return _through(_formula, inputs)


def torch_compile(inputs: LayerNormInputs) -> Prepared:
    """The same through torch.compile."""
    return _through(compiled(_formula, *inputs.activations()), inputs)


def _through(formula: Callable[..., Any], inputs: LayerNormInputs) -> Prepared:
    if inputs.residual is None:
        return Prepared(run=lambda: formula(inputs.x, None, inputs.weight, inputs.bias)[0])
    return Prepared(run=lambda: formula(inputs.x, inputs.residual, inputs.weight, inputs.bias))


def _formula(
    x: torch.Tensor, residual: torch.Tensor | None, weight: torch.Tensor, bias: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    total = x if residual is None else x + residual
    return torch.nn.functional.layer_norm(total, weight.shape, weight, bias, 1e-5), total

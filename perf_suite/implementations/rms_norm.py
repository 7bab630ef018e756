"""Implementations of rms_norm; with a residual each gives the sum too."""

from collections.abc import Callable

import torch

from warpbench.prepared import Prepared
from warpbench.torch_compile import compiled

from ..inputs.rms_norm import RmsNormInputs
from ..warpwatch_operators import triton_operator, warpwatch_operator

_Formula = Callable[[torch.Tensor, torch.Tensor | None, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]


def warpwatch(inputs: RmsNormInputs) -> Prepared:
    """The CUDA C++ or CPU kernel of the commit."""
    if inputs.residual is None:
        norm = warpwatch_operator("rms_norm")
        return Prepared(run=lambda: norm(inputs.x, inputs.weight))
    add_norm = warpwatch_operator("add_rms_norm")
    return Prepared(run=lambda: add_norm(inputs.x, inputs.residual, inputs.weight))


def triton(inputs: RmsNormInputs) -> Prepared:
    """Its Triton twin."""
    if inputs.residual is None:
        norm = triton_operator("rms_norm")
        return Prepared(run=lambda: norm(inputs.x, inputs.weight))
    add_norm = triton_operator("rms_norm", "add_rms_norm")
    return Prepared(run=lambda: add_norm(inputs.x, inputs.residual, inputs.weight))


def eager(inputs: RmsNormInputs) -> Prepared:
    """PyTorch's own rms_norm, behind an addition where there is a residual."""
    return _through(_eager_formula, inputs)


def torch_compile(inputs: RmsNormInputs) -> Prepared:
    """The formula in plain PyTorch, fp32 inside, through torch.compile."""
    return _through(compiled(_formula, *inputs.activations()), inputs)


def _through(formula: _Formula, inputs: RmsNormInputs) -> Prepared:
    if inputs.residual is None:
        return Prepared(run=lambda: formula(inputs.x, None, inputs.weight)[0])
    return Prepared(run=lambda: formula(inputs.x, inputs.residual, inputs.weight))


def _eager_formula(
    x: torch.Tensor, residual: torch.Tensor | None, weight: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    total = x if residual is None else x + residual
    return torch.nn.functional.rms_norm(total, weight.shape, weight, 1e-6), total


def _formula(x: torch.Tensor, residual: torch.Tensor | None, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    total = x if residual is None else x + residual
    wide = total.float()
    scale = torch.rsqrt(wide.square().mean(dim=-1, keepdim=True) + 1e-6)
    return (wide * scale * weight.float()).to(x.dtype), total

"""Layer normalisation, with or without a residual."""

from __future__ import annotations

import torch

from ..extension import load_operator


def layer_norm(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None, *, eps: float = 1e-5
) -> torch.Tensor:
    """(x - mean) / standard deviation * weight + bias over the last dimension; new, contiguous, of x's shape and dtype.

    x (..., cols) in float16, bfloat16 or float32, its last dimension contiguous; weight and bias (cols) in x's dtype,
    contiguous. Sums and products are in float32, rounded once; the variance is the mean squared distance from the mean,
    without Bessel's correction. Leading dimensions of x are free, but x is copied if they do not collapse into rows of
    one stride.
    Ba, Kiros and Hinton, "Layer Normalization" (2016).
    Forward only: there is no gradient.
    Raises RuntimeError for an unsupported shape, dtype, device or stride.
    """
    return _layer_norm(x, weight, bias, eps)


def add_layer_norm(
    x: torch.Tensor,
    residual: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    *,
    eps: float = 1e-5,
) -> tuple[torch.Tensor, torch.Tensor]:
    """(layer_norm(total), total) for total = x + residual, in one pass.

    residual has x's shape and dtype; total is rounded to it before it is normalised. It is a second output rather than
    written over residual, for the reasons in add_rms_norm. Everything else is as in layer_norm.
    """
    return _add_layer_norm(x, residual, weight, bias, eps)


_layer_norm = load_operator("layer_norm")
_add_layer_norm = load_operator("add_layer_norm")

"""Layer normalisation, with or without the residual stream."""

from __future__ import annotations

import torch

from ..extension import load_operator


def layer_norm(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None, *, eps: float = 1e-5
) -> torch.Tensor:
    """x less its mean, over its standard deviation, times weight, plus bias; new, contiguous, of x's shape and dtype.

    x (..., cols) in float16, bfloat16 or float32, its last dimension contiguous; weight and bias (cols) in x's dtype,
    contiguous. Sums and products are in float32, rounded once; the variance is that of the distances from the mean,
    without Bessel's correction. Leading dimensions of x are free, but where they do not collapse into rows of one
    stride, x is copied. Ba, Kiros and Hinton, "Layer Normalization" (2016).
    Forward only: there is no gradient.
    Raises RuntimeError with a sentence for a shape, dtype, device or stride it does not take.
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

    residual has x's shape and dtype; total is rounded to it, and is what is normalised. It is a second output and not
    written over residual, for the reasons that add_rms_norm gives. Everything else is as for layer_norm.
    """
    return _add_layer_norm(x, residual, weight, bias, eps)


_layer_norm = load_operator("layer_norm")
_add_layer_norm = load_operator("add_layer_norm")

"""Root-mean-square normalisation, with or without a residual."""

from __future__ import annotations

import torch

from ..extension import load_operator


def rms_norm(x: torch.Tensor, weight: torch.Tensor, *, eps: float = 1e-6) -> torch.Tensor:
    """x * weight / sqrt(mean of x^2) over the last dimension; a new, contiguous tensor of x's shape and dtype.

    x (..., cols) in float16, bfloat16 or float32, its last dimension contiguous; weight (cols) in x's dtype and
    contiguous. Mean and product are in float32, rounded once. Leading dimensions of x are free, but x is copied if they
    do not collapse into rows of one stride.
    Zhang and Sennrich, "Root Mean Square Layer Normalization" (2019).
    Forward only: there is no gradient.
    Raises RuntimeError for an unsupported shape, dtype, device or stride.
    """
    return _rms_norm(x, weight, eps)


def add_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, *, eps: float = 1e-6
) -> tuple[torch.Tensor, torch.Tensor]:
    """(rms_norm(total), total) for total = x + residual, as a transformer needs between two layers, in one pass.

    residual has x's shape and dtype; total is rounded to it before it is normalised, as in a model that adds first. The
    updated residual is a second output rather than written over the first: both move the same bytes, but torch.compile
    handles an operator without side effects without copies, and it can be called again on the same data. Everything
    else is as in rms_norm.
    """
    return _add_rms_norm(x, residual, weight, eps)


_rms_norm = load_operator("rms_norm")
_add_rms_norm = load_operator("add_rms_norm")

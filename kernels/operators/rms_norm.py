"""Root-mean-square normalisation, with or without the residual stream."""

from __future__ import annotations

import torch

from ..extension import load_operator


def rms_norm(x: torch.Tensor, weight: torch.Tensor, *, eps: float = 1e-6) -> torch.Tensor:
    """x times weight over the root of its mean square; a new, contiguous tensor of x's shape and dtype.

    x (..., cols) in float16, bfloat16 or float32, its last dimension contiguous; weight (cols) in x's dtype and
    contiguous. Mean and product are in float32, rounded once. Leading dimensions of x are free, but where they do not
    collapse into rows of one stride, x is copied. Zhang and Sennrich, "Root Mean Square Layer Normalization" (2019).
    Forward only: there is no gradient.
    Raises RuntimeError with a sentence for a shape, dtype, device or stride it does not take.
    """
    return _rms_norm(x, weight, eps)


def add_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, *, eps: float = 1e-6
) -> tuple[torch.Tensor, torch.Tensor]:
    """(rms_norm(total), total) for total = x + residual: what a transformer does between two layers, in one pass.

    residual has x's shape and dtype; total is rounded to it, and is what is normalised, as in a model that adds first.
    The updated residual is a second output, not written over the first: both ways move the same bytes, and an operator
    that writes over nothing is what torch.compile takes without copies and what can be called again on the same data.
    Everything else is as for rms_norm.
    """
    return _add_rms_norm(x, residual, weight, eps)


_rms_norm = load_operator("rms_norm")
_add_rms_norm = load_operator("add_rms_norm")

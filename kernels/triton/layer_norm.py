"""Layer normalisation in Triton; the formula is in csrc/layer_norm/layer_norm.h."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from .row_norm import launch


def layer_norm(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None, *, eps: float = 1e-5
) -> torch.Tensor:
    """Triton twin of warpwatch.kernels.layer_norm, for CUDA tensors (CPU tensors under TRITON_INTERPRET=1)."""
    return _launch("triton layer_norm", x, None, weight, bias, eps)[0]


def add_layer_norm(
    x: torch.Tensor,
    residual: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    *,
    eps: float = 1e-5,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Triton twin of warpwatch.kernels.add_layer_norm."""
    return _launch("triton add_layer_norm", x, residual, weight, bias, eps)


def _launch(
    operator: str,
    x: torch.Tensor,
    residual: torch.Tensor | None,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    eps: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    vectors = {"weight": weight, "bias": bias}
    return launch(_layer_norm, operator, x, residual, eps, vectors, BIAS=bias is not None)


@triton.jit
def _layer_norm(
    x_ptr,
    residual_ptr,
    weight_ptr,
    bias_ptr,
    out_ptr,
    total_ptr,
    x_row_stride,
    residual_row_stride,
    n_rows,
    n_cols,
    eps,
    RESIDUAL: tl.constexpr,
    BIAS: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_COLS: tl.constexpr,
):
    """out = (h - mean) weight / sqrt(variance + eps) + bias, h = x or the rounded x + residual.

    One program per BLOCK_ROWS rows. The variance is the mean squared distance from the mean, in a second pass.
    """
    row = (tl.program_id(0).to(tl.int64) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS))[:, None]
    col = tl.arange(0, BLOCK_COLS)[None, :]
    live = (row < n_rows) & (col < n_cols)
    held = tl.load(x_ptr + row * x_row_stride + col, mask=live, other=0.0).to(tl.float32)
    if RESIDUAL:
        held += tl.load(residual_ptr + row * residual_row_stride + col, mask=live, other=0.0).to(tl.float32)
        rounded = held.to(total_ptr.dtype.element_ty)
        tl.store(total_ptr + row * n_cols + col, rounded, mask=live)
        held = rounded.to(tl.float32)
    away = tl.where(live, held - tl.sum(held, axis=1)[:, None] / n_cols, 0.0)
    scale = 1.0 / tl.sqrt(tl.sum(away * away, axis=1)[:, None] / n_cols + eps)
    weight = tl.load(weight_ptr + col, mask=col < n_cols, other=0.0).to(tl.float32)
    result = away * scale * weight
    if BIAS:
        result += tl.load(bias_ptr + col, mask=col < n_cols, other=0.0).to(tl.float32)
    tl.store(out_ptr + row * n_cols + col, result, mask=live)

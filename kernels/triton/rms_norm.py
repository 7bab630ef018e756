"""Root-mean-square normalisation in Triton; the formula is in csrc/rms_norm/rms_norm.h."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from .row_norm import launch


def rms_norm(x: torch.Tensor, weight: torch.Tensor, *, eps: float = 1e-6) -> torch.Tensor:
    """Triton twin of warpwatch.kernels.rms_norm, for CUDA tensors (CPU tensors under TRITON_INTERPRET=1)."""
    return launch(_rms_norm, "triton rms_norm", x, None, eps, {"weight": weight})[0]


def add_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, *, eps: float = 1e-6
) -> tuple[torch.Tensor, torch.Tensor]:
    """Triton twin of warpwatch.kernels.add_rms_norm."""
    return launch(_rms_norm, "triton add_rms_norm", x, residual, eps, {"weight": weight})


@triton.jit
def _rms_norm(
    x_ptr,
    residual_ptr,
    weight_ptr,
    out_ptr,
    total_ptr,
    x_row_stride,
    residual_row_stride,
    n_rows,
    n_cols,
    eps,
    RESIDUAL: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_COLS: tl.constexpr,
):
    """out = h weight / sqrt(mean(h^2) + eps), h = x or the rounded x + residual; one program per BLOCK_ROWS rows."""
    row = (tl.program_id(0).to(tl.int64) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS))[:, None]
    col = tl.arange(0, BLOCK_COLS)[None, :]
    live = (row < n_rows) & (col < n_cols)
    held = tl.load(x_ptr + row * x_row_stride + col, mask=live, other=0.0).to(tl.float32)
    if RESIDUAL:
        held += tl.load(residual_ptr + row * residual_row_stride + col, mask=live, other=0.0).to(tl.float32)
        rounded = held.to(total_ptr.dtype.element_ty)
        tl.store(total_ptr + row * n_cols + col, rounded, mask=live)
        held = rounded.to(tl.float32)
    scale = 1.0 / tl.sqrt(tl.sum(held * held, axis=1)[:, None] / n_cols + eps)
    weight = tl.load(weight_ptr + col, mask=col < n_cols, other=0.0).to(tl.float32)
    tl.store(out_ptr + row * n_cols + col, held * scale * weight, mask=live)

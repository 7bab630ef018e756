"""What attention's twins ask of their tensors: each raises RuntimeError with a sentence that begins with the twin."""

from __future__ import annotations

import torch

HEAD_DIMS = (16, 32, 64, 96, 128, 256)  # 96 as three quarters of a block of 128: Triton's are powers of two


def check_keys(operator: str, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> None:
    """k and v belong to q, each of four dimensions: (batch, heads, seq, head_dim)."""
    batch, heads_q, _, head_dim = q.shape
    heads_kv, seq_kv = k.shape[1], k.shape[2]
    if k.shape != v.shape or k.shape != (batch, heads_kv, seq_kv, head_dim) or heads_kv < 1 or heads_q % heads_kv:
        raise RuntimeError(
            f"{operator}: k and v must have shape (batch, heads_kv, seq_kv, head_dim) with heads_kv dividing heads_q "
            f"of q {list(q.shape)}, got {list(k.shape)} and {list(v.shape)}"
        )


def check_head_dim(operator: str, head_dim: int) -> None:
    """It is one that the flash twins have blocks for."""
    if head_dim not in HEAD_DIMS:
        raise RuntimeError(f"{operator}: head_dim must be one of {HEAD_DIMS}, got {head_dim}")


def check_rows(operator: str, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> None:
    """Rows of head_dim lie in one piece."""
    if q.stride(-1) != 1 or k.stride(-1) != 1 or v.stride(-1) != 1:
        raise RuntimeError(f"{operator}: the last dimension of q, k and v must be contiguous (stride 1)")


def check_window(operator: str, causal: bool, window: int | None) -> None:
    """There is none, or it has a meaning."""
    if window is not None and (window < 1 or not causal):
        raise RuntimeError(
            f"{operator}: window must be positive and needs causal=True, got {window} with causal={causal}"
        )

"""Argument checks of attention's Triton twins; each raises RuntimeError with a message that names the operator."""

from __future__ import annotations

import torch

HEAD_DIMS = (16, 32, 64, 96, 128, 256)  # tl blocks are powers of two: 96 is padded to 128


def check_keys(operator: str, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> None:
    """Check that k and v match q; each is (batch, heads, seq, head_dim)."""
    batch, heads_q, _, head_dim = q.shape
    heads_kv, seq_kv = k.shape[1], k.shape[2]
    if k.shape != v.shape or k.shape != (batch, heads_kv, seq_kv, head_dim) or heads_kv < 1 or heads_q % heads_kv:
        raise RuntimeError(
            f"{operator}: k and v must have shape (batch, heads_kv, seq_kv, head_dim) with heads_kv dividing heads_q "
            f"of q {list(q.shape)}, got {list(k.shape)} and {list(v.shape)}"
        )


def check_head_dim(operator: str, head_dim: int) -> None:
    """Check that head_dim is one that the flash twins support."""
    if head_dim not in HEAD_DIMS:
        raise RuntimeError(f"{operator}: head_dim must be one of {HEAD_DIMS}, got {head_dim}")


def check_rows(operator: str, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> None:
    """Check that head_dim is contiguous."""
    if q.stride(-1) != 1 or k.stride(-1) != 1 or v.stride(-1) != 1:
        raise RuntimeError(f"{operator}: the last dimension of q, k and v must be contiguous (stride 1)")


def check_window(operator: str, causal: bool, window: int | None) -> None:
    """Check that the window, if given, is valid."""
    if window is not None and (window < 1 or not causal):
        raise RuntimeError(
            f"{operator}: window must be positive and needs causal=True, got {window} with causal={causal}"
        )

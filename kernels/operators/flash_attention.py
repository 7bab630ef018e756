"""Scaled dot-product attention."""

from __future__ import annotations

import torch

from ..extension import load_operator
from .devices import check_devices


def flash_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    scale: float | None = None,
    window: int | None = None,
) -> torch.Tensor:
    """softmax(scale q k^T) v without writing the scores to memory; a new, contiguous tensor of q's shape and dtype.

    q (batch, heads_q, seq_q, head_dim); k, v (batch, heads_kv, seq_kv, head_dim), heads_kv dividing heads_q: query
    head h reads key head h // (heads_q / heads_kv). float16, float32, and bfloat16 (on a GPU from compute capability
    8.0 on); head_dim 64, 96, 128 or 256 on a GPU, any multiple of 8 up to 256 on a CPU, and contiguous; other strides
    free.
    Scores, softmax and sums are in float32. causal is aligned bottom-right: query i sees keys
    j <= i + (seq_kv - seq_q), and a query that sees none gives zeros. window, with causal alone, leaves it the newest
    `window` of those keys, j > i + (seq_kv - seq_q) - window; tiles of older keys are not read. scale is positive,
    1 / sqrt(head_dim) by default.
    Dao, "FlashAttention-2: Faster Attention with Better Parallelism and Work Partitioning" (2023).
    Forward only: there is no gradient.
    Raises RuntimeError with a sentence for a shape, dtype, device or stride it does not take.
    """
    return _flash_attention(q, k, v, causal, scale, window)


def flash_attention_with_lse(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    scale: float | None = None,
    window: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """flash_attention and the logarithm of each query's sum_j exp(scale q k_j), float32 (batch, heads_q, seq_q).

    From it a backward pass has the softmax weights again, and results over parts of the keys can be merged. It is -inf
    for a query that sees no key. Raises as flash_attention does.
    """
    return _flash_attention_with_lse(q, k, v, causal, scale, window)


def _fake_flash_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    causal: bool = False,
    scale: float | None = None,
    window: int | None = None,
) -> torch.Tensor:
    check_devices("flash_attention", q=q, k=k, v=v)
    return q.new_empty(q.shape)


def _fake_flash_attention_with_lse(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    causal: bool = False,
    scale: float | None = None,
    window: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    check_devices("flash_attention", q=q, k=k, v=v)
    return q.new_empty(q.shape), q.new_empty(q.shape[:3], dtype=torch.float32)


_flash_attention = load_operator("flash_attention", fake=_fake_flash_attention)
_flash_attention_with_lse = load_operator("flash_attention_with_lse", fake=_fake_flash_attention_with_lse)

"""Scaled dot-product attention."""

from __future__ import annotations

from typing import Any

import torch

from ..extension import load_operator
from ._flash_attention_biased import empty_like_queries, flash_attention_biased, flash_attention_biased_with_lse


def flash_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    scale: float | None = None,
    window: int | None = None,
    bias: torch.Tensor | None = None,
) -> torch.Tensor:
    """softmax(scale q k^T + bias) v without writing the scores to memory: a new tensor like q.

    It is contiguous, or the transpose of a contiguous (batch, seq_q, heads_q, head_dim) where q is that.
    q (batch, heads_q, seq_q, head_dim); k, v (batch, heads_kv, seq_kv, head_dim), heads_kv dividing heads_q: query
    head h reads key head h // (heads_q / heads_kv). float16, float32, and bfloat16 (on a GPU from compute capability
    8.0 on); head_dim 64, 96, 128 or 256 on a GPU, any multiple of 8 up to 256 on a CPU, and contiguous; other strides
    free.
    Scores, softmax and sums are in float32. causal is aligned bottom-right: query i sees keys
    j <= i + (seq_kv - seq_q), and a query that sees none gives zeros. window, with causal alone, leaves it the newest
    `window` of those keys, j > i + (seq_kv - seq_q) - window; tiles of older keys are not read. scale is positive,
    1 / sqrt(head_dim) by default.
    bias, of q's dtype, broadcasts to (batch, heads_q, seq_q, seq_kv) and has two to four dimensions, as SDPA's
    attn_mask; what stands for a boolean mask is zeros.masked_fill(~mask, -inf). -inf hides a key, and a query all of
    whose keys are hidden gives zeros. It is read in q's dtype, half the bytes of float32, and added in float32. With
    it, gradients (the bias has one too) come from PyTorch's products in float32, some queries of a head at once.
    Dao, "FlashAttention-2: Faster Attention with Better Parallelism and Work Partitioning" (2023).
    Differentiable in q, k and v, once, wherever it runs. The same input gives the same gradients, bit for bit.
    Raises RuntimeError with a sentence for a shape, dtype, device or stride it does not take.
    """
    if bias is not None:
        return flash_attention_biased(q, k, v, bias, causal, scale, window)
    if torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad):
        out: torch.Tensor = _flash_attention_with_lse(q, k, v, causal, scale, window)[0]
        return out
    return _flash_attention(q, k, v, causal, scale, window)


def flash_attention_with_lse(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    scale: float | None = None,
    window: int | None = None,
    bias: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """flash_attention and log(sum_j exp(scale q k_j + bias_j)) of each query, float64 (batch, heads_q, seq_q).

    From it a backward pass has the softmax weights again, and results over parts of the keys can be merged: a float32
    would have no bits left for the sum behind a large score. It is -inf for a query that sees no key. Raises as
    flash_attention does.
    """
    if bias is not None:
        return flash_attention_biased_with_lse(q, k, v, bias, causal, scale, window)
    return _flash_attention_with_lse(q, k, v, causal, scale, window)


def flash_attention_backward(
    d_out: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor,
    lse: torch.Tensor,
    *,
    causal: bool = False,
    scale: float | None = None,
    window: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """dq, dk and dv, contiguous, of flash_attention_with_lse's out and lse; d_out of out's shape and dtype.

    What autograd calls, for those who keep out and lse themselves. The weights are exp(scale q k^T - lse): the scores
    are worked out again, in float32, and never written to memory. lse has bits for the weights while scaled
    scores stay below 1e12. Raises as flash_attention does.
    """
    gradients: tuple[torch.Tensor, torch.Tensor, torch.Tensor] = _flash_attention_backward(
        d_out, q, k, v, out, lse, causal, scale, window
    )
    return gradients


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, torch.Tensor]) -> None:
    q, k, v, *ctx.options = inputs
    out, lse = output
    ctx.mark_non_differentiable(lse)
    ctx.save_for_backward(q, k, v, out, lse)


def _differentiate(ctx: Any, d_out: torch.Tensor, _d_lse: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
    dq, dk, dv = _flash_attention_backward(d_out, *ctx.saved_tensors, *ctx.options)
    return dq, dk, dv, None, None, None


_flash_attention = load_operator("flash_attention", result=lambda q, **_: empty_like_queries(q))
_flash_attention_with_lse = load_operator(
    "flash_attention_with_lse",
    result=lambda q, **_: (empty_like_queries(q), q.new_empty(q.shape[:3], dtype=torch.float64)),
)
_flash_attention_backward = load_operator(
    "flash_attention_backward", result=lambda q, k, v, **_: tuple(x.new_empty(x.shape) for x in (q, k, v))
)
if hasattr(torch.ops.warpwatch, "flash_attention_with_lse"):  # there is an extension, and it is not older
    torch.library.register_autograd("warpwatch::flash_attention_with_lse", _differentiate, setup_context=_keep)

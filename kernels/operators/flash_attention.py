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
    """softmax(scale q k^T + bias) v without writing the scores to memory; a new tensor like q.

    The result is contiguous, or the transpose of a contiguous (batch, seq_q, heads_q, head_dim) if q is.
    q (batch, heads_q, seq_q, head_dim); k, v (batch, heads_kv, seq_kv, head_dim), heads_kv dividing heads_q: query head
    h reads key head h // (heads_q / heads_kv). float16, float32, and bfloat16 (on a GPU from compute capability 8.0
    on); head_dim 64, 96, 128 or 256 on a GPU, any multiple of 8 up to 256 on a CPU, and contiguous; other strides free.
    Scores, softmax and sums are in float32. scale is positive, 1 / sqrt(head_dim) by default. causal is aligned
    bottom-right: query i sees keys j <= i + (seq_kv - seq_q), and a query that sees no key returns zeros. window (with
    causal only) limits it to the newest `window` of those keys, j > i + (seq_kv - seq_q) - window; tiles of older keys
    are not read.
    bias, of q's dtype, broadcasts to (batch, heads_q, seq_q, seq_kv) and has two to four dimensions, like SDPA's
    attn_mask; the equivalent of a boolean mask is zeros.masked_fill(~mask, -inf). -inf hides a key, and a query whose
    keys are all hidden returns zeros. It is read in q's dtype, half the bytes of float32, and added in float32. With a
    bias, gradients (the bias has one too) are computed by PyTorch's products in float32, a block of queries at a time.
    Dao, "FlashAttention-2: Faster Attention with Better Parallelism and Work Partitioning" (2023).
    Differentiable once in q, k and v, on every device. The same input gives the same gradients, bit for bit.
    Raises RuntimeError for an unsupported shape, dtype, device or stride.
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

    A backward pass recomputes the softmax weights from it, and results over parts of the keys can be merged; next to a
    large score, float32 would have no bits left for the sum. It is -inf for a query that sees no key. Raises as
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
    """dq, dk and dv, contiguous, for flash_attention_with_lse's out and lse; d_out has out's shape and dtype.

    Autograd calls this; call it directly if you keep out and lse yourself. The weights are exp(scale q k^T - lse):
    scores are recomputed in float32 and never written to memory; on Hopper, with head_dim 96 or 128, their gradients
    are, in up to 520 MB that are free again afterwards. lse resolves the weights for scaled scores below 1e12.
    Raises as flash_attention does.
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
if hasattr(torch.ops.warpwatch, "flash_attention_with_lse"):  # the extension exists and has this operator
    torch.library.register_autograd("warpwatch::flash_attention_with_lse", _differentiate, setup_context=_keep)

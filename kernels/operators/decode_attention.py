"""Attention of a few new tokens over a KV cache."""

from __future__ import annotations

import torch

from ..extension import load_operator


def decode_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    lengths: torch.Tensor | None = None,
    *,
    scale: float | None = None,
    max_length: int | None = None,
) -> torch.Tensor:
    """softmax(scale q k^T) v of 1 to 8 new tokens, causal among them; a new, contiguous tensor of q's shape and dtype.

    q (batch, heads_q, seq_q, head_dim); k, v (batch, heads_kv, capacity, head_dim), heads_kv dividing heads_q: query
    head h reads key head h // (heads_q / heads_kv). lengths (batch) int32 on q's device, clamped to 0 .. capacity: the
    number of keys of each sequence, of which the last are the new tokens' own; keys past it are not read. Without
    lengths, all of capacity counts. Query i sees keys j <= i + (length - seq_q); a query that sees no key returns
    zeros. float16, float32, and bfloat16 (on a GPU from compute capability 8.0 on); head_dim 64, 96, 128 or 256 on a
    GPU, any multiple of 8 up to 256 on a CPU, and contiguous; other strides free, but on a GPU the rows of k and v
    start on 16-byte boundaries. Scores, softmax and sums are in float32. scale is positive, 1 / sqrt(head_dim) by
    default. The division of the work depends on shapes and max_length only, so that a CUDA graph stays correct when
    lengths change. max_length, 0 .. capacity, is an upper bound of lengths for a cache with far more capacity than
    keys: the keys are divided into fewer splits. It does not limit a sequence: a longer one gives the same result up to
    rounding, but takes longer.
    Dao, Haziza, Massa and Sizov, "Flash-Decoding for long-context inference" (2023).
    Forward only: there is no gradient.
    Raises RuntimeError for an unsupported shape, dtype, device, stride or max_length.
    """
    return _decode_attention(q, k, v, lengths, scale, max_length)


_decode_attention = load_operator("decode_attention")

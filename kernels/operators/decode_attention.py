"""Attention of a few new tokens over a cache of keys and values."""

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
    head h reads key head h // (heads_q / heads_kv). lengths (batch) int32 on q's device: so many keys of each sequence
    count, the new tokens' own among them and last, and what lies behind them is not read; values are taken as
    0 .. capacity. Without lengths all of capacity counts. Query i sees keys j <= i + (length - seq_q), and a query that
    sees none gives zeros. float16, float32, and bfloat16 (on a GPU from compute capability 8.0 on); head_dim 64, 96,
    128 or 256 on a GPU, any multiple of 8 up to 256 on a CPU, and contiguous; other strides free, but on a GPU the rows
    of k and v start on 16-byte boundaries. Scores, softmax and sums are in float32. scale is positive,
    1 / sqrt(head_dim) by default. How the work is divided follows from shapes and max_length alone, so that a CUDA
    graph stays right when lengths change. max_length, 0 .. capacity, is a bound of lengths for a cache with far more
    room than keys: the work is divided into fewer parts. It limits no sequence: a longer one gives the same result up
    to rounding, but takes longer.
    Dao, Haziza, Massa and Sizov, "Flash-Decoding for long-context inference" (2023).
    Forward only: there is no gradient.
    Raises RuntimeError with a sentence for a shape, dtype, device, stride or bound it does not take.
    """
    return _decode_attention(q, k, v, lengths, scale, max_length)


_decode_attention = load_operator("decode_attention")

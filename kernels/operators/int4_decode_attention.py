"""Attention of a few new tokens over a cache of 4-bit integers with a window of 16-bit ones."""

from __future__ import annotations

import torch

from ..extension import load_operator


def int4_decode_attention(
    q: torch.Tensor,
    k_codes: torch.Tensor,
    v_codes: torch.Tensor,
    k_scales: torch.Tensor,
    v_scales: torch.Tensor,
    k_window: torch.Tensor,
    v_window: torch.Tensor,
    lengths: torch.Tensor,
    *,
    scale: float | None = None,
    max_length: int | None = None,
) -> torch.Tensor:
    """decode_attention of 1 to 8 new tokens over what int4_kv_append wrote; a new, contiguous tensor like q.

    q (batch, heads_q, seq_q, head_dim); the six parts of the cache as int4_kv_append takes them, the windows in q's
    dtype: keys and values are scale * code + zero up to the sequence's last whole group of 32, behind it those of the
    windows. lengths (batch) int32: keys of each sequence, the new tokens' own among them and last, taken as
    0 .. capacity; what lies behind is not read. q is float16 or bfloat16 with head_dim 64, 128 or 256 on a GPU, on any
    from compute capability 7.5 on, where all parts start on 16-byte boundaries; on a CPU float32 too and any multiple
    of 32 up to 256. Masks, scale, max_length and graphs as in decode_attention. Nothing is dequantized in memory: the
    scales of keys multiply the query, once a group; values become float16 in registers; sums are in float32.
    Liu et al., "KIVI: A Tuning-Free Asymmetric 2bit Quantization for KV Cache" (ICML 2024).
    Forward only: there is no gradient.
    Raises RuntimeError with a sentence for a shape, dtype, device or stride it does not take.
    """
    return _int4_decode_attention(
        q, k_codes, v_codes, k_scales, v_scales, k_window, v_window, lengths, scale, max_length
    )


_int4_decode_attention = load_operator("int4_decode_attention")

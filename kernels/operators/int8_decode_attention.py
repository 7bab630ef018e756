"""Attention of a few new tokens over an int8 KV cache."""

from __future__ import annotations

import torch

from ..extension import load_operator


def int8_decode_attention(
    q: torch.Tensor,
    k_codes: torch.Tensor,
    v_codes: torch.Tensor,
    k_scales: torch.Tensor,
    v_scales: torch.Tensor,
    lengths: torch.Tensor,
    *,
    scale: float | None = None,
    max_length: int | None = None,
) -> torch.Tensor:
    """decode_attention of 1 to 8 new tokens over the cache of int8_kv_append; a new, contiguous tensor like q.

    q (batch, heads_q, seq_q, head_dim); k_codes, v_codes (batch, heads_kv, capacity, head_dim) int8; k_scales, v_scales
    (batch, heads_kv, capacity) float32: key j is k_scales[j] * k_codes[j], values likewise. lengths (batch) int32,
    clamped to 0 .. capacity: the number of keys of each sequence, of which the last are the new tokens' own; keys past
    it are not read. q is float16 or bfloat16 with head_dim 64, 128 or 256 on a GPU of compute capability 7.5 or newer,
    where rows of codes start on 16-byte boundaries; on a CPU also float32 and any multiple of 8 up to 256. Masks,
    scale, max_length and CUDA graphs as in decode_attention. Nothing is dequantized in memory: a key's scale multiplies
    its scores, a value's scale its weights; sums are in float32.
    Forward only: there is no gradient.
    Raises RuntimeError for an unsupported shape, dtype, device or stride.
    """
    return _int8_decode_attention(q, k_codes, v_codes, k_scales, v_scales, lengths, scale, max_length)


_int8_decode_attention = load_operator("int8_decode_attention")

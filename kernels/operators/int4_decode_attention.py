"""Attention of a few new tokens over a 4-bit KV cache with a 16-bit window."""

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
    """decode_attention of 1 to 8 new tokens over the cache of int4_kv_append; a new, contiguous tensor like q.

    q (batch, heads_q, seq_q, head_dim); the six tensors of the cache as in int4_kv_append, the windows in q's dtype:
    keys and values are scale * code + zero up to the sequence's last complete group of 32, and those of the windows
    after it. lengths (batch) int32, clamped to 0 .. capacity: the number of keys of each sequence, of which the last
    are the new tokens' own; keys past it are not read. q is float16 or bfloat16 with head_dim 64, 128 or 256 on a GPU
    of compute capability 7.5 or newer, where all tensors start on 16-byte boundaries; on a CPU also float32 and any
    multiple of 32 up to 256. Masks, scale, max_length and CUDA graphs as in decode_attention. Nothing is dequantized in
    memory: key scales multiply the query, once per group; values are dequantized to float16 in registers; sums are in
    float32.
    Liu et al., "KIVI: A Tuning-Free Asymmetric 2bit Quantization for KV Cache" (ICML 2024).
    Forward only: there is no gradient.
    Raises RuntimeError for an unsupported shape, dtype, device or stride.
    """
    return _int4_decode_attention(
        q, k_codes, v_codes, k_scales, v_scales, k_window, v_window, lengths, scale, max_length
    )


_int4_decode_attention = load_operator("int4_decode_attention")
